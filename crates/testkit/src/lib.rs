//! Checks over the whole tree; they live in `tests/`.
