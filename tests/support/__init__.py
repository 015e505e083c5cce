"""What tests share: laws, oracles, cases, guarded memory, fuzzers, a browser."""
