"""A scalar whose exponential is a fraction, for exact derivatives of a smooth maximum."""

from fractions import Fraction


class Log2:
    """k·log 2, whose exponential is the fraction 2ᵏ: the derivatives of a smooth maximum of these are fractions."""

    def __init__(self, k):
        self.k = k

    def __rmul__(self, beta):
        return Log2(beta * self.k)

    def __sub__(self, other):
        return Log2(self.k - other.k)

    def __gt__(self, other):
        return self.k > other.k

    def __eq__(self, other):
        return self.k == getattr(other, "k", other)

    def exp(self):
        return Fraction(2) ** self.k
