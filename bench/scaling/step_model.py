"""The formula of docs/scaling.md for steps without ZeRO in which every process has one shard (src/run/plan.cpp has all of it)."""
import math

BLOCK = 16384  # elements
BACKWARD = 2 / 3  # of a step's computation


def buckets(parameters, n):
    """As src/train/pieces.cpp cuts them."""
    blocks = math.ceil(parameters / BLOCK)
    least = max(16, n)
    size = min(max(blocks // 16, least), max(least, 4 * n))
    return math.ceil(blocks / size)


def once(parameters, n, bytes_per_second, message):
    """Seconds of sending gradients once: each has a piece of every bucket, and sends all others theirs."""
    return 4 * parameters * (n - 1) / n / bytes_per_second + buckets(parameters, n) * (n - 1) * message


def exposed(compute, sending, hides):
    """Gradients and their sums are sent during the backward pass, of which a part hides them."""
    return max(0, 2 * sending - hides * BACKWARD * compute)


def largest_of(n):
    """By how many standard deviations the largest of n normal numbers is above their mean (Cramer 1946, section 28.6)."""
    u = math.sqrt(2 * math.log(n))
    return u - (math.log(math.log(n)) + math.log(4 * math.pi)) / (2 * u) + 0.5772156649 / u
