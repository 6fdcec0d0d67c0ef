// Host C++ headers for device code: the names of std:: that the kernels use, taken from libcu++.
#pragma once
#include "stdint.h"
#include <cuda/std/algorithm>
#include <cuda/std/atomic>
#include <cuda/std/cmath>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/numeric>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
namespace std {
using namespace cuda::std;
}
