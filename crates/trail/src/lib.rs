//! trail
