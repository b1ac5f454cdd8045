//! With the real disk below, on simulated devices.
