"""transformers' BERT as it is: its weights under its names; nothing is computed here."""

import torch
from transformers import BertConfig, BertModel

from gaugeblock import Level
from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.model import Encoder

FAMILY = "not of this family of models"
EMPTY = "reshapes without knowing the size"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
LAYERS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
NAMES = {
    "embedding": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}


class HFBert(Encoder, TorchArrays):
    name = "hf_bert"
    dtypes = frozenset({"float64", "float32", "bfloat16"})
    level = {"bfloat16": Level.STORED}
    unsupported = {
        **{f"encoder.{scheme}": FAMILY for scheme in ("sinusoidal", "rotary", "alibi", "positionless")},
        **{f"encoder.rotary.{option}": FAMILY for option in ("interleaved", "partial", "scaling")},
        **{f"encoder.{option}": FAMILY for option in ("window", "scale", "grouped", "value_width", "inner_width")},
        **{f"encoder.{option}": FAMILY for option in ("pre", "rms", "gated", "vectors", "beside_decoder")},
        **{f"encoder.{option}": FAMILY for option in ("bias.some", "bias.none", "feed_forward.bias.none")},
        **{f"encoder.{option}": FAMILY for option in ("embedding_scale", "embedding_norm.none", "final_norm")},
        "encoder.padding.ids": "every id is looked up",
        "encoder.empty.batch": EMPTY,
        "encoder.empty.tokens": EMPTY,
    }

    def load(self, weights, config):
        stack = config.encoder
        if config.decoder is not None or not self._of_the_family(stack):
            raise Unsupported(f"transformers' BERT: {config}")
        block, attention = stack.block, stack.block.attention
        model = BertModel(
            BertConfig(
                vocab_size=stack.vocabulary,
                hidden_size=attention.width,
                num_hidden_layers=stack.layers,
                num_attention_heads=attention.heads,
                intermediate_size=block.ffn_width,
                hidden_act=ACTIVATIONS[block.activation],
                max_position_embeddings=stack.max_positions,
                type_vocab_size=1,
                layer_norm_eps=block.eps,
                pad_token_id=None,
            ),
            add_pooling_layer=False,
        )
        ours = {self._named(name): w.T if w.ndim == 2 and "layers" in name else w for name, w in weights.items()}
        ours["embeddings.token_type_embeddings.weight"] = torch.zeros(1, attention.width)  # of one kind
        model = model.to(next(iter(weights.values())).dtype).eval()
        model.load_state_dict(ours)
        return model

    def _of_the_family(self, stack):
        block, attention = stack.block, stack.block.attention
        heads = attention.heads == attention.kv_heads and attention.heads * attention.head_width == attention.width
        scores = attention.window is None and attention.scale is None and not attention.alibi and not attention.rotary
        biased = len(attention.bias) == 4 and block.ffn_bias
        blocks = (block.norm, block.placement, block.gated) == ("layer", "post", False)
        around = stack.embedding_norm and not stack.final_norm and stack.embedding_scale == 1
        embedded = stack.inputs == "ids" and stack.positions == "learned"
        equal = attention.value_width == attention.head_width
        return heads and equal and scores and biased and blocks and around and embedded

    def _named(self, name):
        layer, kind = name.removeprefix("encoder.").rsplit(".", 1)
        if layer in NAMES:
            return f"{NAMES[layer]}.{kind}"
        n, part = layer.removeprefix("layers.").split(".", 1)
        return f"encoder.layer.{n}.{LAYERS[part]}.{kind}"

    @torch.no_grad()
    def encode(self, model, tokens_or_vectors, *, token_mask=None):
        ids = tokens_or_vectors.long()
        if token_mask is None:
            return model(ids).last_hidden_state
        at = (token_mask.long().cumsum(1) - 1).clamp(min=0)
        return model(ids, attention_mask=token_mask.long(), position_ids=at).last_hidden_state
