// SPDX-License-Identifier: Apache-2.0
//! The C ABI of `canopy-host`, as `include/canopy_host.h` declares it.
