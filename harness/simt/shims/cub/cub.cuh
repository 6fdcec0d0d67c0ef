// The block and warp primitives of CUB; the device-wide ones need a host compiler.
#pragma once
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/config.cuh>
#include <cub/version.cuh>
#include <cub/warp/warp_reduce.cuh>
