//! The numbers of errors.
