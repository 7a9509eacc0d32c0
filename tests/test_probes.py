"""The numeric probes of the catalogue of public faults: where each of them is tried, or why it cannot be.

A probe is an input on which the right and the wrong value of a known fault differ plainly. Those that fit in a few
lines are tests of our own, on every backend, with values that are worked out in the test; the names of conformance
checks beside them say where every backend under check meets the same fault.
"""

import ast
from pathlib import Path

import pytest

from gaugeblock.conformance.checks import registry

# probe -> (tests, checks, what the interface has no word for)
PROBES: dict[str, tuple[str, str, str]] = {
    "P1": ("the_last_query_sees_the_last_key", "causal_alignment row_emptied_by_causal", ""),
    "P2": (
        "later_keys_do_not_reach_earlier_queries later_ids_do_not_reach_earlier_rows",
        "future_changes_nothing decoder_looks_at_no_later_token",
        "returned weights, dropout and inputs of rank 3",
    ),
    "P3": (
        "no_key_is_lost_at_the_end_of_a_tile two_keys_at_the_end_of_many",
        "long_rows mask_at_the_end_of_many_keys",
        "",
    ),
    "P4": ("a_row_that_sees_nothing_is_zero", "row_emptied_by_mask row_emptied_by_bias", ""),
    "P5": (
        "lowest_numbers_of_half_precision_do_not_add_up the_lowest_number_hides_nothing_and_makes_no_nan "
        "left_pads_and_causality_leave_rows_empty",
        "finite_bias_hides_nothing",
        "",
    ),
    "P6": ("a_hidden_key_loses_against_any_score", "mask_beats_any_score", ""),
    "P7": (
        "what_stands_at_pads_changes_nothing vectors_at_pads_change_nothing",
        "encoder_ignores_pads decoder_ignores_pads",
        "a mode for training",
    ),
    "P8": ("every_row_of_the_batch_has_its_mask", "mask_broadcasts key_and_query_axes_of_the_mask", ""),
    "P9": ("true_keeps_and_minus_infinity_hides", "true_means_may_attend minus_infinity_masks", ""),
    "P10": (
        "what_lies_behind_the_length_is_not_read",
        "nan_stays_hidden masked_key_is_inert key_at_minus_infinity_is_inert stale_slots_never_matter",
        "NaN in a masked row binds only backends that promise nan_safe, which ours do not",
    ),
    "P11": ("an_empty_sequence_in_a_batch", "row_emptied_by_mask batch_rows_are_independent", ""),
    "P12": ("a_window_of_three", "window mask_and_window_intersect causal_and_window_intersect", ""),
    "P13": ("a_window_of_three", "window key_outside_the_window_is_inert", ""),
    "P14": ("the_scale_is_that_of_a_head", "scale_recovered scores_have_unit_variance scale_of_the_scores", ""),
    "P15": ("weights_add_up_over_the_keys", "equal_values_are_the_output rows_are_convex_combinations", ""),
    "P16": ("a_cap_does_not_show_a_hidden_key", "no_cap_shows_a_masked_key scores_are_capped", ""),
    "P17": ("two_large_scores_differ_by_one products_beyond_half_precision", "large_logits shift_of_a_row", ""),
    "P18": (
        "query_heads_read_their_group query_heads_read_the_keys_of_their_group",
        "query_heads_read_their_group heads_read_their_group_exactly",
        "",
    ),
    "P19": ("heads_are_merged_token_by_token", "columns_belong_to_heads every_head_reads_its_own_columns", ""),
    "P20": (
        "",
        "columns_belong_to_heads weights_are_in_by_out",
        "query, key and value are weights of their own: whoever converts a fused projection splits it before",
    ),
    "P21": ("strided_values_are_read_by_their_strides", "strided_and_broadcast_views", ""),
    "P22": (
        "a_call_repeated_gives_the_same",
        "rows_are_convex_combinations",
        "dropout: every call is what evaluation gives",
    ),
    "P23": ("the_two_layouts_at_position_one", "pairs_of_the_layout_half pairs_of_the_layout_interleaved", ""),
    "P24": ("position_zero_changes_nothing", "position_zero_is_the_identity", ""),
    "P25": (
        "positions_are_not_rounded_to_bfloat16 angles_are_not_rounded_to_float16 "
        "frequencies_are_not_rounded_to_bfloat16",
        "positions_are_not_rounded far_rotations",
        "",
    ),
    "P26": ("four_of_eight_components_turn", "first_components_only other_components_stay", ""),
    "P27": ("a_large_base", "base_of_the_frequencies", ""),
    "P28": ("llama3_interpolates_its_middle_band", "llama3_scaling", ""),
    "P29": (
        "yarn_lengthens_once yarn_of_a_given_attention_factor",
        "yarn_lengthens_every_pair yarn_attention_factor",
        "two fields of magnitudes: the caller gives their quotient as attention_factor",
    ),
    "P30": ("yarn_table", "yarn_scaling yarn_ramp_between_pairs", ""),
    "P31": (
        "ntk_raises_the_base_by_a_power a_long_call_leaves_no_base_behind",
        "ntk_scaling calls_leave_nothing_behind",
        "a base that follows the length: the caller gives its alpha, and a cache keeps one base",
    ),
    "P32": ("steps_stand_behind_the_prompt", "steps_give_what_the_whole_gives", ""),
    "P33": ("one_token_in_two_rows", "one_token_in_every_batch_row", ""),
    "P34": ("ragged_rows_go_on_as_if_alone", "steps_over_padded_rows padded_row_is_decoded_as_if_alone", ""),
    "P35": (
        "three_pads_on_the_left_take_no_positions ragged_rows_go_on_as_if_alone",
        "pads_take_no_row_of_the_decoder_s_table",
        "",
    ),
    "P36": ("sinusoids_of_position_one", "order_of_sines_and_cosines frequencies_recovered", ""),
    "P37": ("slopes_of_linear_biases", "slopes_of_a_power_of_two slopes_of_other_numbers_of_heads", ""),
    "P38": ("a_penalty_by_distance_reaches_a_single_query", "one_query_against_many_keys distance_lowers_scores", ""),
    "P39": ("layer_norm_of_a_single_one", "layer_norm_variance layer_norm_eps", ""),
    "P40": (
        "layer_norm_does_not_cancel",
        "layer_norm_of_rows_with_a_large_mean",
        "a mean of 10000, where the bound of float32 admits any value",
    ),
    "P41": (
        "eps_stands_inside_the_root eps_does_not_grow_with_the_row a_row_of_zeros_stays_zero "
        "eps_below_float16_is_not_lost",
        "rms_norm_eps rms_norm_of_zeros",
        "",
    ),
    "P42": ("squares_beyond_float16", "rms_norm_of_large_and_small_rows layer_norm_of_large_and_small_rows", ""),
    "P43": (
        "the_weight_is_the_factor_itself one_plus_a_weight_in_bfloat16",
        "rms_norm_weight",
        "a weight that is an offset from one: a declared convention, none of ours",
    ),
    "P44": (
        "where_the_norms_of_a_silent_block_stand the_head_reads_a_normalised_row",
        "silent_sublayers_leave_the_stream_as_it_is silent_sublayers_leave_the_norms_in_turn",
        "",
    ),
    "P45": (
        "forms_of_gelu forms_of_gelu_in_a_network where_the_forms_of_gelu_differ_most",
        "gelu_where_its_forms_differ gelu_without_approximation",
        "",
    ),
    "P46": ("silu_stands_on_the_gate", "silu_is_on_the_gate shut_gate_lets_nothing_through", ""),
    "P47": (
        "a_row_of_the_embedding_moves_its_logit",
        "tied_head_is_the_embedding untied_head_is_its_own head_adds_its_bias",
        "",
    ),
    "P48": (
        "what_lies_behind_the_length_is_not_read",
        "stale_slots_never_matter appended_tokens_are_read",
        "the buffer itself: what lies in it is left by truncated tokens",
    ),
    "P49": ("a_window_of_four_in_steps", "steps_give_what_the_whole_gives", ""),
    "P50": ("what_was_handed_out_stays", "handed_out_arrays_never_change no_call_writes_to_what_was_passed_in", ""),
    "P51": (
        "beams_go_on_from_their_prefixes beams_take_their_memories_along",
        "reordered_rows reordered_cache_rows steps_with_a_memory",
        "",
    ),
    "P52": (
        "a_row_is_freed",
        "reordered_rows any_number_of_rows",
        "the admission of a row to a running batch: a cache begins with all of its rows",
    ),
    "P53": ("truncated_tokens_were_never_there", "truncated_cache truncated_columns_never_were", ""),
    "P54": ("so_many_new_tokens", "chain_of_ids chain_of_ids_without_layers", ""),
    "P55": ("a_row_ends_at_its_first_new_end", "rows_end_one_by_one chain_of_ids_after_pads", ""),
}


def written() -> set[str]:
    """The tests of the probes."""
    files = Path(__file__).parent.glob("test_probes_*.py")
    bodies = (node for f in files for node in ast.parse(f.read_text("utf-8")).body)
    return {
        b.name.removeprefix("test_") for b in bodies if isinstance(b, ast.FunctionDef) and b.name.startswith("test_")
    }


def test_every_probe_is_tried_or_refused_with_a_reason() -> None:
    assert list(PROBES) == [f"P{n}" for n in range(1, 56)]
    assert [p for p, (tests, _, why) in PROBES.items() if not tests and not why] == []


@pytest.mark.parametrize("probe", PROBES)
def test_what_a_probe_names_is_there(probe: str) -> None:
    tests, checks, _ = PROBES[probe]
    assert set(tests.split()) <= written()
    assert checks and set(checks.split()) <= set(registry())


def test_every_test_of_a_probe_is_named() -> None:
    named = {name for tests, _, _ in PROBES.values() for name in tests.split()}
    assert written() == named
