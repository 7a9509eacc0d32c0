"""Caches that declare what they do not do."""

from gaugeblock.conformance.mutants.declared import declares, forgets
from gaugeblock.conformance.unusual.cache import (
    AppendOnly,
    Growing,
    GrowingAndNeverConsumed,
    NeverConsumed,
    OneIndex,
    TheSameHandle,
)

CONSUMED, CAPACITY = ("CACHE-CONSUMED",), ("CACHE-CAPACITY",)

declares(NeverConsumed, __name__, killed_by=CONSUMED, convention="consumed_cache", value="raises")
declares(TheSameHandle, __name__, killed_by=CONSUMED, convention="consumed_cache", value="raises")
declares(TheSameHandle, __name__, killed_by=CONSUMED, convention="consumed_cache", value="valid")
declares(Growing, __name__, killed_by=CAPACITY, convention="capacity", value="fixed")
declares(GrowingAndNeverConsumed, __name__, killed_by=CAPACITY, convention="consumed_cache", value="valid")
declares(GrowingAndNeverConsumed, __name__, killed_by=CONSUMED, convention="capacity", value="grows")
forgets(OneIndex, __name__, {"kv_cache.layers.apart": "CACHE-LAYERS"})
forgets(
    AppendOnly,
    __name__,
    {
        "kv_cache.reorder": "CACHE-REORDER",
        "kv_cache.truncate": "CACHE-TRUNCATE",
        "kv_cache.fork": "CACHE-FORK",
        "kv_cache.value_width": "CACHE-APPEND",
        "kv_cache.empty.tokens": "CACHE-EMPTY",
        "kv_cache.empty.batch": "CACHE-EMPTY",
        "kv_cache.capacity.zero": "CACHE-EMPTY",
        "kv_cache.layers.apart": "CACHE-LAYERS",
    },
)
