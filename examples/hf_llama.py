"""transformers' Llama as it is: its weights under its names, its cache, its generate; nothing is computed here."""

import copy

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from gaugeblock import Conventions
from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.spec.errors import ConfigError, ShapeError, Unsupported
from gaugeblock.spec.model import Decoder

FAMILY = "not of this family of models"
EMPTY = "reshapes without knowing the size"
LAYERS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
    "attention_norm": "input_layernorm",
    "feed_forward_norm": "post_attention_layernorm",
}
NAMES = {"decoder.embedding": "model.embed_tokens", "decoder.final_norm": "model.norm", "head": "lm_head"}


class HFLlama(Decoder, TorchArrays):
    name = "hf_llama"
    dtypes = frozenset({"float32"})  # in float64 the norms and the rotation are float32 all the same
    conventions = Conventions(consumed_cache="undefined", capacity="grows")
    unsupported = {
        **{f"decoder.{scheme}": FAMILY for scheme in ("learned", "sinusoidal", "alibi", "positionless")},
        **{f"decoder.rotary.{option}": FAMILY for option in ("interleaved", "partial", "scaling")},
        **{f"decoder.{option}": FAMILY for option in ("window", "scale", "value_width", "inner_width", "bias.some")},
        **{f"decoder.{option}": FAMILY for option in ("post", "layer", "plain", "head_bias", "memory", "memory_mask")},
        **{f"decoder.{option}": FAMILY for option in ("embedding_scale", "embedding_norm", "final_norm.none")},
        "decoder.padding.ids": "every id is looked up",
        "decoder.empty.batch": EMPTY,
        "decoder.empty.tokens": EMPTY,
        "decoder.layers.none": "a cache needs a layer",
        "decoder.bytes": "the cache grows",
    }

    def load(self, weights, config):
        block = config.decoder.block
        attention, turns = block.attention, block.attention.rotary
        if not self._of_the_family(config, block):
            raise Unsupported(f"transformers' Llama: {config}")
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=config.decoder.vocabulary,
                hidden_size=attention.width,
                intermediate_size=block.ffn_width,
                num_hidden_layers=config.decoder.layers,
                num_attention_heads=attention.heads,
                num_key_value_heads=attention.kv_heads,
                head_dim=attention.head_width,
                rms_norm_eps=block.eps,
                rope_parameters={"rope_type": "default", "rope_theta": turns.base},
                attention_bias=bool(attention.bias),
                mlp_bias=block.ffn_bias,
                tie_word_embeddings=config.tied,
                bos_token_id=None,
                eos_token_id=None,
            )
        )
        ours = {self._named(name): w.T if w.ndim == 2 and "embedding" not in name else w for name, w in weights.items()}
        if config.tied:
            ours["lm_head.weight"] = ours["model.embed_tokens.weight"]
        model = model.to(next(iter(weights.values())).dtype).eval()
        model.load_state_dict(ours)
        return model

    def _of_the_family(self, config, block):
        attention, turns, stack = block.attention, block.attention.rotary, config.decoder
        D = attention.head_width
        turned = turns is not None and turns.layout == "half" and not turns.scaling and turns.rotary_dim in (None, D)
        heads = attention.window is None and attention.scale is None and not attention.alibi and block.cross is None
        widths = attention.value_width == D and attention.width == attention.heads * D
        blocks = block.norm == "rms" and block.placement == "pre" and block.gated and len(attention.bias) in (0, 4)
        plain = stack.positions is None and stack.embedding_scale == 1 and not stack.embedding_norm and stack.final_norm
        return turned and heads and widths and blocks and plain and stack.layers > 0 and not config.head_bias

    def _named(self, name):
        layer, kind = name.rsplit(".", 1)
        if layer in NAMES:
            return f"{NAMES[layer]}.{kind}"
        n, part = layer.removeprefix("decoder.layers.").split(".", 1)
        return f"model.layers.{n}.{LAYERS[part]}.{kind}"

    @torch.no_grad()
    def logits(self, model, tokens, *, token_mask=None, last_only=False):
        return self._called(model, tokens, self._real(tokens, token_mask), tokens.shape[1], last_only, use_cache=False)

    def start(self, model, batch, capacity):
        return DynamicCache(), torch.zeros(batch, 0, dtype=torch.bool)

    @torch.no_grad()
    def step(self, model, tokens, cache, *, token_mask=None, last_only=False):
        held, before = cache
        real = torch.cat([before, self._real(tokens, token_mask)], 1)
        y = self._called(model, tokens, real, tokens.shape[1], last_only, past_key_values=held, use_cache=True)
        return y, (held, real)

    def _called(self, model, tokens, real, T, last_only, **how):
        at = (real.long().cumsum(1) - 1).clamp(min=0)[:, -T:]
        y = model(tokens.long(), attention_mask=real.long(), position_ids=at, **how).logits
        last = (real[:, -T:].long() * torch.arange(T)).argmax(1)
        return y[torch.arange(len(y)), last][:, None] if last_only else y

    def generate(self, model, tokens, *, max_new_tokens, token_mask=None, eos_id=None, pad_id=None, use_cache=True):
        real = self._real(tokens, token_mask)
        if not bool(real.any(1).all()):
            raise ConfigError("generate: every row must have a real token")
        if max_new_tokens == 0:
            return tokens
        order = real.long().argsort(dim=1, stable=True)  # its prompts have their pads before them
        ends = {} if eos_id is None else {"eos_token_id": eos_id, "pad_token_id": eos_id if pad_id is None else pad_id}
        y = model.generate(
            tokens.long().gather(1, order),
            attention_mask=real.gather(1, order).long(),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            use_cache=use_cache,
            **ends,
        )[:, tokens.shape[1] :]
        filled = pad(y, (0, max_new_tokens - y.shape[1]), value=ends.get("pad_token_id", 0))
        return torch.cat([tokens.long(), filled], 1)

    def _real(self, tokens, token_mask):
        if token_mask is not None and token_mask.shape != tokens.shape:
            raise ShapeError(f"token_mask must be {tuple(tokens.shape)}, got {tuple(token_mask.shape)}")
        return torch.ones(tokens.shape, dtype=torch.bool) if token_mask is None else token_mask

    def reorder(self, cache, rows):
        held, real = cache
        held.batch_select_indices(rows.long())
        return held, real[rows.long()]

    def truncate(self, cache, length):
        held, real = cache
        if length < real.shape[1]:
            held.crop(length - real.shape[1])
        return held, real[:, :length]

    def fork(self, cache):
        return copy.deepcopy(cache)

    def cache_nbytes(self, cache):
        raise Unsupported("transformers' Llama: the cache grows")

    def cache_length(self, cache):
        return cache[1].shape[1]
