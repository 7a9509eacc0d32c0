"""Who is measured: our backends, and the modes of transformers' Llama, each as three calls."""

from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from gaugeblock.bench.size import BASE, EPS, Size
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError, NotAvailable

GROUP = "gaugeblock.backends"
OURS = ("numpy", "torch", "jax")
PEERS = ("hf-eager", "hf-sdpa", "hf-static")


class Player(Protocol):
    """A model of its own, loaded with the weights of a size; only the last logits are asked for, on both sides."""

    def prefill(self, ids: Numpy, capacity: int) -> Numpy:
        """Read ids (T,) into a new cache of this capacity -> the logits (V,) of what follows."""

    def decode(self, id: int) -> Numpy:
        """Read one more id -> the logits (V,) of what follows."""

    def rewind(self, length: int) -> None:
        """Forget all but the first length ids."""

    def cache_nbytes(self) -> int:
        """What the cache says that it takes up."""


class Ours:
    """A backend by its entry point, through the methods of the interface and nothing else; JAX compiles its steps."""

    def __init__(self, word: str, size: Size) -> None:
        name, _, variant = word.partition("@")
        found = [point for point in entry_points(group=GROUP) if point.name == name]
        if not found:
            raise ConfigError(f"bench: {name!r} is no installed backend")
        try:
            backend = found[0].load()(variant)
        except ImportError as missing:
            raise NotAvailable(str(missing)) from None
        self.backend: Any = backend
        self.model = backend.load({n: backend.asarray(w) for n, w in size.weights().items()}, size.config)
        self.step: Any = partial(backend.step, last_only=True)
        if name == "jax":  # whole steps are compiled, and update the cache in place, as its users would have them
            import jax

            self.step = jax.jit(self.step, donate_argnums=2)
        self.cache: Any = None

    def prefill(self, ids: Numpy, capacity: int) -> Numpy:
        self.cache = self.backend.start(self.model, 1, capacity)
        return self._step(ids)

    def decode(self, id: int) -> Numpy:
        return self._step(np.array([id]))

    def rewind(self, length: int) -> None:
        self.cache = self.backend.truncate(self.cache, length)

    def cache_nbytes(self) -> int:
        return int(self.backend.cache_nbytes(self.cache))

    def _step(self, ids: Numpy) -> Numpy:
        tokens = self.backend.asarray(ids[None])  # (1, T)
        scores, self.cache = self.step(self.model, tokens, self.cache)
        logits: Numpy = self.backend.asnumpy(scores)[0, 0]
        return logits


class Llama:
    """transformers' LlamaForCausalLM: eager or sdpa with the growing cache, static is sdpa with StaticCache."""

    def __init__(self, mode: str, size: Size) -> None:
        if find_spec("transformers") is None or find_spec("torch") is None:
            raise NotAvailable("needs transformers and torch: pip install 'gaugeblock[bench]'")
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.set_grad_enabled(False)
        self.torch, self.mode, self.length = torch, mode, 0
        config = LlamaConfig(
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.kv_heads,
            intermediate_size=size.ffn_width,
            vocab_size=size.vocabulary,
            rms_norm_eps=EPS,
            tie_word_embeddings=True,
            max_position_embeddings=1 << 20,
            rope_parameters={"rope_type": "default", "rope_theta": BASE},
            attn_implementation="eager" if mode == "hf-eager" else "sdpa",
        )
        self.model: Any = LlamaForCausalLM(config).eval()
        self.model.load_state_dict({n: torch.from_numpy(w) for n, w in llama_names(size).items()}, strict=True)
        self.cache: Any = None

    def prefill(self, ids: Numpy, capacity: int) -> Numpy:
        from transformers import DynamicCache, StaticCache

        config = self.model.config
        static = self.mode == "hf-static"
        self.cache = StaticCache(config=config, max_cache_len=capacity) if static else DynamicCache(config=config)
        self.length = 0
        return self._step(ids)

    def decode(self, id: int) -> Numpy:
        return self._step(np.array([id]))

    def rewind(self, length: int) -> None:
        self.cache.crop(length - self.length)
        self.length = length

    def cache_nbytes(self) -> int:
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.cache.layers)

    def _step(self, ids: Numpy) -> Numpy:
        tokens = self.torch.from_numpy(ids[None])  # (1, T)
        out = self.model(tokens, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.length += len(ids)
        logits: Numpy = out.logits[0, 0].numpy()
        return logits


def llama_names(size: Size) -> dict[str, Numpy]:
    """The weights under transformers' names; its linear layers are stored the other way round, (out, in)."""
    layers = {
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.output": "self_attn.o_proj",
        "attention_norm": "input_layernorm",
        "feed_forward.gate": "mlp.gate_proj",
        "feed_forward.up": "mlp.up_proj",
        "feed_forward.down": "mlp.down_proj",
        "feed_forward_norm": "post_attention_layernorm",
    }
    ours = size.weights()
    theirs = {
        "model.embed_tokens.weight": ours["decoder.embedding.weight"],
        "lm_head.weight": ours["decoder.embedding.weight"],
        "model.norm.weight": ours["decoder.final_norm.weight"],
    }
    for n in range(size.layers):
        for name, their in layers.items():
            weight = ours[f"decoder.layers.{n}.{name}.weight"]
            theirs[f"model.layers.{n}.{their}.weight"] = np.ascontiguousarray(weight.T)
    return theirs


def player(word: str, size: Size) -> Player:
    """The player of this name, loaded.

    Raises ConfigError for a name that there is not, NotAvailable for what is not installed or cannot run here.
    """
    return Llama(word, size) if word in PEERS else Ours(word, size)
