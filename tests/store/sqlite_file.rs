//! What only a database file can do: be missing, broken, newer, or somebody else's.
