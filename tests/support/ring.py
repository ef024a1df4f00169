"""What a ring all-reduce sends; message_counts_test.cpp proves it of ours."""


def ring(ranks: int, count: int) -> int:
    """The bytes that the busiest rank sends for so many floats: all but one chunk, twice."""
    chunks = [count // ranks + (i < count % ranks) for i in range(ranks)]
    return 4 * (2 * count - min(a + b for a, b in zip(chunks, chunks[1:] + chunks[:1])))
