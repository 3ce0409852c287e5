"""Steps that several strategies take: one-way marginals first, screening of pairs."""
