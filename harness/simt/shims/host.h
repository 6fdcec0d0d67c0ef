// Declarations that launchers in the vendors' headers need to be parsed; none of them is ever called on the device.
// FlashInfer's exception and allocator headers are left out by their own include guards.
#pragma once
#define FLASHINFER_EXCEPTION_H_
#define FLASHINFER_ALLOCATOR_H_
#define FLASHINFER_CHECK(...) \
  do {                        \
  } while (0)
#define FLASHINFER_ERROR(...) FLASHINFER_CHECK()
#define FLASHINFER_WARN(...) FLASHINFER_CHECK()
#include <cuda_runtime.h>

#include "std.h"
typedef unsigned short ushort;
template <class... Args>
cudaError_t cudaOccupancyMaxPotentialClusterSize(Args&&...);
template <class... Args>
cudaError_t cudaGetDeviceProperties(Args&&...);
namespace std {
struct string {
  string(const char*);
  const char* c_str() const;
};
struct ostream {
  template <class T>
  ostream& operator<<(T&&);
};
extern ostream cout, cerr;
extern int endl;
const char* getenv(const char*);
int strcmp(const char*, const char*);
}  // namespace std
