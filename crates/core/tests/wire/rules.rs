//! Rules of shaping, one test each.
