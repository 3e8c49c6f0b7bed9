"""The formula of docs/scaling.md for steps without ZeRO with one shard per process (src/run/plan.cpp has the complete formula)."""
import math

BLOCK = 16384  # elements
BACKWARD = 2 / 3  # share of the backward pass in the computation of a step


def buckets(parameters, n):
    """Number of gradient buckets, as in src/train/buckets.cpp."""
    blocks = math.ceil(parameters / BLOCK)
    least = max(16, n)
    size = min(max(blocks // 16, least), max(least, 4 * n))
    return math.ceil(blocks / size)


def once(parameters, n, bytes_per_second, message):
    """Seconds to send the gradients once. Each process owns a piece of every bucket and sends the other pieces to their owners."""
    return 4 * parameters * (n - 1) / n / bytes_per_second + buckets(parameters, n) * (n - 1) * message


def exposed(compute, sending, hides):
    """Seconds of communication that do not overlap with the backward pass. Gradients and then their sums are sent."""
    return max(0, 2 * sending - hides * BACKWARD * compute)


def largest_of(n):
    """Expected maximum of n standard normal variables, in standard deviations above the mean (Cramer 1946, section 28.6)."""
    u = math.sqrt(2 * math.log(n))
    return u - (math.log(math.log(n)) + math.log(4 * math.pi)) / (2 * u) + 0.5772156649 / u
