"""The checks of decoding with a cache and of generation: exact laws first, then every step against the whole."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import decoding as laws
from gaugeblock.conformance.laws import generation as generating
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.decoding import (
    beyond_the_table,
    malformed_generations,
    malformed_steps,
    try_out,
    using,
)
from gaugeblock.conformance.strategies import decoding, generation
from gaugeblock.conformance.strategies.decoding import FORKS, MIXED, REORDERS, SMALL, SWITCHES, TRUNCATIONS, DecodeCase
from gaugeblock.conformance.strategies.generation import GenerateCase

Register: TypeAlias = Callable[[Callable[..., None]], Callable[[Any], None]]
Script: TypeAlias = DecodeCase
Prompt: TypeAlias = GenerateCase


def step(*clauses: str, needs: tuple[str, ...] = (), **described: Any) -> Register:
    """A check of steps with a cache."""
    used = {"needs": ("step", *needs), "case_type": DecodeCase, **described}
    return checks(*clauses, component="model", offer="decoder", **used)


def generate(*clauses: str, needs: tuple[str, ...] = (), **described: Any) -> Register:
    """A check of generation."""
    used = {"needs": ("generate", *needs), "case_type": GenerateCase, **described}
    return checks(*clauses, component="model", offer="decoder", **used)


scripts = partial(decoding.cases, shapes=SMALL)

CHAIN = ("untied",)  # what a model needs in which every id has one successor

OTHER = tuple(switch for switch in SWITCHES if switch.get("kind") != "both")
PLACED = tuple(switch for switch in OTHER if switch.get("positions"))
LEARNED = tuple(switch for switch in OTHER if switch.get("positions") == "learned")
CROSS = tuple(switch for switch in SWITCHES if switch.get("kind") == "both")


@generate(
    "MODEL-GENERATE",
    "MODEL-GENERATE-LENGTH",
    needs=CHAIN,
    cases=partial(generation.chains, pads=("",)),
    effort=0.4,
)
def test_chain_of_ids(cell: Cell, case: Prompt) -> None:
    generating.continues(cell, case)


@generate(
    "MODEL-GENERATE",
    needs=("layers.none", *CHAIN),
    cases=partial(generation.chains, shapes=generation.NO_LAYERS, new=(3, 1)),
    effort=0.2,
)
def test_chain_of_ids_without_layers(cell: Cell, case: Prompt) -> None:
    generating.continues(cell, case)


@generate(
    "MODEL-GENERATE-PADDING",
    needs=("token_mask", *CHAIN),
    cases=partial(generation.chains, pads=("right", "left", "middle", "ragged"), new=(3, 5)),
    effort=0.4,
)
def test_chain_of_ids_after_pads(cell: Cell, case: Prompt) -> None:
    generating.continues(cell, case)


@generate(
    "MODEL-GENERATE-EOS",
    "MODEL-GENERATE-LENGTH",
    needs=("generate.eos", *CHAIN),
    cases=partial(generation.chains, eos=(3, 0, 1, 2), pad=(None, 2, 0, 5), new=(7, 9), pads=("right", "")),
    effort=0.6,
)
def test_rows_end_one_by_one(cell: Cell, case: Prompt) -> None:
    generating.continues(cell, case)


@generate(
    "MODEL-GENERATE-TIES",
    needs=CHAIN,
    cases=partial(generation.chains, design="twins", pads=("", "right")),
    effort=0.4,
)
def test_equally_likely_ids(cell: Cell, case: Prompt) -> None:
    generating.continues(cell, case)


@generate("MODEL-GENERATE-TIES", needs=("head_bias",), cases=generation.ties, effort=0.4)
def test_equal_logits(cell: Cell, case: Prompt) -> None:
    generating.takes_the_lowest(cell, case)


@generate("MODEL-GENERATE", needs=("head_bias",), cases=partial(generation.ties, design="close"), effort=0.2)
def test_close_logits(cell: Cell, case: Prompt) -> None:
    generating.takes_the_likeliest(cell, case)


@generate("MODEL-GENERATE", cases=generation.cases, effort=0.9)
def test_likeliest_id(cell: Cell, case: Prompt) -> None:
    generating.takes_the_likeliest(cell, case)


@generate(
    "MODEL-ROOM",
    needs=("learned", "token_mask"),
    cases=partial(
        generation.cases, shapes=SMALL, switches=LEARNED, new=(3, 0), pads=("right", "left", "ragged"), T=(1, 2, 4)
    ),
    effort=0.4,
)
def test_text_fills_the_table(cell: Cell, case: Prompt) -> None:
    generating.generated(cell, generating.with_a_tight_table(case))


@generate(
    "MODEL-EMPTY",
    needs=("empty.batch",),
    cases=partial(generation.cases, shapes=(SMALL[0]._replace(B=0),), switches=OTHER, pads=("", "right")),
    effort=0.2,
)
def test_no_rows_go_on(cell: Cell, case: Prompt) -> None:
    generating.generated(cell, case)


@step(
    "MODEL-TRUNCATE",
    needs=("truncate",),
    cases=partial(scripts, ops=("s3,s2,t3,s2", "s1,s3,t1,s1", "s4,s1,t4,s2"), switches=OTHER, spare=(0, 3)),
    effort=0.3,
)
def test_truncated_columns_never_were(cell: Cell, case: Script) -> None:
    laws.forgets(cell, case)


@step(
    "MODEL-FORK",
    needs=("fork",),
    cases=partial(scripts, ops=("s3,f,s1,s1", "s2,f,s2", "s1,s2,f,s1"), spare=(1, 3)),
    effort=0.3,
)
def test_fork_does_not_show(cell: Cell, case: Script) -> None:
    laws.keeps_apart(cell, case)


@step("MODEL-STEP-ATOMIC", cases=partial(scripts, ops=("s3,x,s1,x", "s1,s2,x", "s2,x,t1,s1"), spare=(0,)), effort=0.3)
def test_step_beyond_the_capacity(cell: Cell, case: Script) -> None:
    laws.refuses_overflow(cell, case)


@step("MODEL-STEP-ATOMIC", "MODEL-IDS", cases=partial(scripts, ops=("s3,i,s1", "i,s2,i,s1"), spare=(0,)), effort=0.3)
def test_step_with_an_unknown_id(cell: Cell, case: Script) -> None:
    laws.refuses_ids(cell, case)


@step("MODEL-CONSUMED", cases=partial(scripts, ops=("s3,s1,s2", "s1,s1"), spare=(0, 2)), effort=0.2)
def test_consumed_cache(cell: Cell, case: Script) -> None:
    laws.refuses_consumed(cell, case)


@step(
    "CACHE-BYTES",
    needs=("bytes",),
    cases=partial(decoding.cases, ops=("s3,s1", "s2,r0.1.1,s1", "s4,t1"), spare=(0,)),
    effort=0.3,
)
def test_bytes_of_a_decoders_cache(cell: Cell, case: Script) -> None:
    laws.counts_bytes(cell, case)


@step("MODEL-CACHED", cases=partial(decoding.cases, pads=("",), switches=OTHER))
def test_steps_give_what_the_whole_gives(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@step(
    "MODEL-CACHED",
    needs=("layers.none",),
    cases=partial(decoding.cases, shapes=decoding.NO_LAYERS, switches=PLACED, ops=("s2,s3", "s3,s1,s1", "s0,s2,s1")),
    effort=0.3,
)
def test_steps_without_layers(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@step("MODEL-CACHED", "MODEL-PADDING", needs=("step.padding",), cases=partial(decoding.cases, outside=(False, True)))
def test_steps_over_padded_rows(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@step("MODEL-TAPS", cases=partial(scripts, ops=("s2,s1,s2", "s1,s1,s1", "s3")), effort=0.3)
def test_traced_steps_give_the_same(cell: Cell, case: Script) -> None:
    laws.same_when_traced(cell, case)


@step("MODEL-CROSS-ONCE", "MODEL-CACHED", needs=("memory",), cases=partial(decoding.cases, switches=CROSS), effort=0.4)
def test_steps_with_a_memory(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@step(
    "MODEL-CACHED",
    cases=partial(scripts, ops=("l3,l1,l1", "s2,l2", "l1,l1,l1", "l4")),
    needs=("last_only",),
    effort=0.3,
)
def test_last_logits_of_a_step(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@step(
    "MODEL-REORDER",
    needs=("reorder",),
    cases=partial(scripts, ops=REORDERS, switches=(*CROSS[::-1], *SWITCHES), pads=("left", "right", "ragged", "")),
    effort=0.4,
)
def test_reordered_rows(cell: Cell, case: Script) -> None:
    laws.follows(cell, case, "MODEL-REORDER")


@step("MODEL-TRUNCATE", needs=("truncate",), cases=partial(scripts, ops=TRUNCATIONS), effort=0.4)
def test_truncated_cache(cell: Cell, case: Script) -> None:
    laws.follows(cell, case, "MODEL-TRUNCATE")


@step("MODEL-FORK", needs=("fork",), cases=partial(scripts, ops=FORKS), effort=0.4)
def test_forked_cache(cell: Cell, case: Script) -> None:
    laws.follows(cell, case, "MODEL-FORK")


@step(
    "MODEL-CACHED",
    "MODEL-HANDED-OUT",
    cases=partial(decoding.cases, ops=MIXED),
    needs=("reorder", "truncate", "fork"),
    effort=0.4,
)
def test_everything_in_turn(cell: Cell, case: Script) -> None:
    laws.follows(cell, case)


@generate("MODEL-EMPTY-PROMPT")
def test_malformed_generations_are_refused(cell: Cell) -> None:
    refused(cell, malformed_generations(cell))


@generate("MODEL-ROOM", needs=("learned",))
def test_text_beyond_the_table_is_refused(cell: Cell) -> None:
    refused(cell, beyond_the_table(cell))


@generate("MODEL-ERRORS")
def test_refused_generations_name_the_error(cell: Cell) -> None:
    named(cell, [*malformed_generations(cell), *beyond_the_table(cell)])


@step("MODEL-STEP-REFUSES")
def test_malformed_steps_are_refused(cell: Cell) -> None:
    refused(cell, malformed_steps(cell))


@step("MODEL-ERRORS")
def test_refused_steps_name_the_error(cell: Cell) -> None:
    named(cell, malformed_steps(cell))


@checks("MODEL-UNSUPPORTED", component="model", offer="decoder")
def test_unsupported_steps_are_refused(cell: Cell) -> None:
    unsupported(cell, using, try_out)
