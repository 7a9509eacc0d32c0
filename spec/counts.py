"""How many operations and bytes attention takes, as closed forms (source 3.3, 7).

One operation is one multiplication with its addition, as the source document counts: a product (n, m) @ (m, p) is
n m p of them. Floating-point operations are twice as many. Exponentials are counted apart; scales, masks and sums of
softmax, biases and normalizations are not counted.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operations:
    """The multiply-adds of one multi-head attention, part by part, and its exponentials."""

    query: int
    key: int
    value: int
    scores: int
    mix: int
    output: int
    exponentials: int

    @property
    def projections(self) -> int:
        """What grows with the number of tokens: the products with a weight matrix."""
        return self.query + self.key + self.value + self.output

    @property
    def attention(self) -> int:
        """What grows with queries times keys: scores and the mixing of values."""
        return self.scores + self.mix

    @property
    def total(self) -> int:
        """All multiply-adds."""
        return self.projections + self.attention


def attention(*, B: int, H: int, T: int, S: int, D: int, E: int) -> int:
    """The multiply-adds of scores and mixing, for all keys whether visible or not.

        B H T S (D + E)

    The number of key/value heads does not matter: shared keys are read by every query head that they serve.
    Clauses: MHA-COUNTS. Source: the document's section 3.3.
    """
    return B * H * T * S * (D + E)


def multi_head(
    *, B: int, T: int, S: int, M: int, H: int, K: int, D: int, E: int, cached: int = 0, causal: bool = False
) -> Operations:
    """What one multi-head attention of T new tokens costs against S keys, cached of which are projected already.

        query  B T M H D          key     B (S - cached) M K D        value  B (S - cached) M K E
        scores B H n D            mix     B H n E                     output B T H E M
        n = T S, or under causal the visible pairs alone: T (S - T) + T (T + 1) / 2,  T <= S

    causal=False is what a kernel does that hides keys but does not skip them. With d = M = H D = H E and K = H the
    projections are 4 N d ** 2 and the rest 2 N ** 2 d: equal at N = 2 d.
    Raises ValueError for cached outside 0 to S, or causal with T > S. Clauses: MHA-COUNTS.
    Source: the document's section 3.3.
    """
    if not 0 <= cached <= S:
        raise ValueError(f"cached must be in 0 to S = {S}, got {cached}")
    if causal and T > S:
        raise ValueError(f"causal needs T <= S, got T = {T}, S = {S}")
    pairs = T * (S - T) + T * (T + 1) // 2 if causal else T * S
    fresh = B * (S - cached) * M * K
    return Operations(
        query=B * T * M * H * D,
        key=fresh * D,
        value=fresh * E,
        scores=B * H * pairs * D,
        mix=B * H * pairs * E,
        output=B * T * H * E * M,
        exponentials=B * H * pairs,
    )


def generation(n: int, *, B: int, M: int, H: int, K: int, D: int, E: int, cached: bool) -> int:
    """The multiply-adds of one attention layer over n tokens that come one at a time.

        with a cache  n P + A n (n + 1) / 2          without  P n (n + 1) / 2 + A n (n + 1) (2 n + 1) / 6
        P = B M (H D + K D + K E + H E),  A = B H (D + E)

    Without a cache step t projects all t tokens again and scores them all against one another; with one it projects
    a single token, and scores it against t keys. Clauses: MHA-COUNTS, CACHE-COST. Source: the document's section 7.
    """
    P = multi_head(B=B, T=1, S=1, M=M, H=H, K=K, D=D, E=E).projections
    A = attention(B=B, H=H, T=1, S=1, D=D, E=E)
    triangle = n * (n + 1) // 2
    return n * P + A * triangle if cached else P * triangle + A * triangle * (2 * n + 1) // 3


def weights_nbytes(*, B: int, H: int, T: int, S: int, itemsize: int) -> int:
    """The bytes of the attention weights, or of the scores, of one layer where they are written to memory.

        B H T S itemsize

    A kernel that works block by block never writes them (Rabe & Staats 2021; Dao et al. 2022).
    Clauses: MHA-COUNTS. Source: the document's section 3.3.
    """
    return B * H * T * S * itemsize


def activations_nbytes(*, B: int, T: int, S: int, M: int, H: int, K: int, D: int, E: int, itemsize: int) -> int:
    """The bytes of what one multi-head attention reads and makes beside its weights: input, q, k, v, mixed, output.

        B (2 T M + T H D + S K D + S K E + T H E) itemsize

    Clauses: MHA-COUNTS. Source: the document's section 3.3.
    """
    return B * (2 * T * M + T * H * D + S * K * D + S * K * E + T * H * E) * itemsize
