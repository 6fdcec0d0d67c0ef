/* Freestanding C11: no headers, no extensions outside SIMT_GNU, so that any C compiler will do, one without a C library
 * of its own included. SIMT_PORTABLE takes the GNU parts out. */
#if defined(__GNUC__) && !defined(SIMT_PORTABLE)
#define SIMT_GNU 1
#endif

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
#ifdef __SIZE_TYPE__
typedef __SIZE_TYPE__ usize;
#else
typedef unsigned long long usize;
#endif
typedef usize uintptr;

void *aligned_alloc(usize alignment, usize size);
void free(void *memory);
void *memset(void *memory, int byte, usize size);
float exp2f(float), log2f(float), sinf(float), cosf(float), tanhf(float), sqrtf(float), fmaf(float, float, float);
float rintf(float), truncf(float), floorf(float), ceilf(float);
double sqrt(double), fma(double, double, double), rint(double), trunc(double), floor(double), ceil(double);

/* A loop over lanes: iterations do not depend on each other. */
#if defined(SIMT_GNU) && defined(__clang__)
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(SIMT_GNU)
#define VECTOR_LOOP _Pragma("GCC ivdep")
#else
#define VECTOR_LOOP
#endif

/* for each lane l whose bit is set in a mask */
#ifdef SIMT_GNU
#define LANES(mask) for (u32 l, left = (mask); left && (l = (u32)__builtin_ctz(left), 1); left &= left - 1)
#else
#define LANES(mask) for (u32 l = 0; l < 32; l++) if ((mask) >> l & 1u)
#endif

/* ---- bits */

typedef union { f32 value; u32 bits; } Bits32;
typedef union { f64 value; u64 bits; } Bits64;

static inline f32 f32_of_bits(u32 bits) { Bits32 b; b.bits = bits; return b.value; }
static inline u32 bits_of_f32(f32 value) { Bits32 b; b.value = value; return b.bits; }
static inline f64 f64_of_bits(u64 bits) { Bits64 b; b.bits = bits; return b.value; }
static inline u64 bits_of_f64(f64 value) { Bits64 b; b.value = value; return b.bits; }

static inline u32 popc_b32(u32 x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0fu;
  return x * 0x01010101u >> 24;
}
static inline u32 popc_b64(u64 x) { return popc_b32((u32)x) + popc_b32((u32)(x >> 32)); }

static inline u32 clz_b32(u32 x) {
  u32 n = 0;
  if (!x) return 32;
  if (!(x >> 16)) { n += 16; x <<= 16; }
  if (!(x >> 24)) { n += 8; x <<= 8; }
  if (!(x >> 28)) { n += 4; x <<= 4; }
  if (!(x >> 30)) { n += 2; x <<= 2; }
  return n + !(x >> 31);
}
static inline u32 clz_b64(u64 x) { return x >> 32 ? clz_b32((u32)(x >> 32)) : 32 + clz_b32((u32)x); }

static inline u32 brev_b32(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return x >> 16 | x << 16;
}
static inline u64 brev_b64(u64 x) { return (u64)brev_b32((u32)x) << 32 | brev_b32((u32)(x >> 32)); }

/* Bit fields: position and length are bytes; what lies beyond the word is dropped. */
static inline u32 field_32(u32 length) { return length > 31 ? ~0u : (1u << length) - 1; }
static inline u64 field_64(u32 length) { return length > 63 ? ~0ull : (1ull << length) - 1; }
static inline u32 bfe_u32(u32 x, u32 at, u32 length) {
  at &= 255, length &= 255;
  return at > 31 ? 0 : x >> at & field_32(length);
}
static inline u64 bfe_u64(u64 x, u32 at, u32 length) {
  at &= 255, length &= 255;
  return at > 63 ? 0 : x >> at & field_64(length);
}
static inline u32 bfi_b32(u32 x, u32 into, u32 at, u32 length) {
  at &= 255, length &= 255;
  if (at > 31) return into;
  const u32 field = field_32(length) << at;
  return (into & ~field) | (x << at & field);
}
static inline u64 bfi_b64(u64 x, u64 into, u32 at, u32 length) {
  at &= 255, length &= 255;
  if (at > 63) return into;
  const u64 field = field_64(length) << at;
  return (into & ~field) | (x << at & field);
}

static inline u32 prmt_b32(u32 low, u32 high, u32 select) {
  const u64 bytes = (u64)high << 32 | low;
  u32 result = 0;
  for (u32 n = 0; n < 4; n++) {
    const u32 nibble = select >> 4 * n;
    u32 byte = (u32)(bytes >> 8 * (nibble & 7)) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * n;
  }
  return result;
}

/* ---- integers; division by zero gives all ones, as on the GPU */

static inline u16 mul_hi_u16(u16 x, u16 y) { return (u16)((u32)x * y >> 16); }
static inline i16 mul_hi_s16(i16 x, i16 y) { return (i16)((i32)x * y >> 16); }
static inline u32 mul_hi_u32(u32 x, u32 y) { return (u32)((u64)x * y >> 32); }
static inline i32 mul_hi_s32(i32 x, i32 y) { return (i32)((i64)x * y >> 32); }
static inline u64 mul_hi_u64(u64 x, u64 y) {
  const u64 x0 = (u32)x, x1 = x >> 32, y0 = (u32)y, y1 = y >> 32;
  const u64 middle = (x0 * y0 >> 32) + (u32)(x1 * y0), other = x0 * y1 + (u32)middle;
  return x1 * y1 + (x1 * y0 >> 32) + (middle >> 32) + (other >> 32);
}
static inline i64 mul_hi_s64(i64 x, i64 y) {
  return (i64)(mul_hi_u64((u64)x, (u64)y) - (x < 0 ? (u64)y : 0) - (y < 0 ? (u64)x : 0));
}

#define DIVIDE_UNSIGNED(T) \
  static inline T div_##T(T x, T y) { return y ? (T)(x / y) : (T)~(T)0; } \
  static inline T rem_##T(T x, T y) { return y ? (T)(x % y) : (T)~(T)0; }
#define DIVIDE_SIGNED(T, I, U) \
  static inline I div_##T(I x, I y) { return !y ? (I)-1 : y == -1 ? (I)(0u - (U)x) : (I)(x / y); } \
  static inline I rem_##T(I x, I y) { return !y ? (I)-1 : y == -1 ? 0 : (I)(x % y); }
DIVIDE_UNSIGNED(u16)
DIVIDE_UNSIGNED(u32)
DIVIDE_UNSIGNED(u64)
DIVIDE_SIGNED(s16, i16, u16)
DIVIDE_SIGNED(s32, i32, u32)
DIVIDE_SIGNED(s64, i64, u64)

/* ---- floats */

static inline f32 flush(f32 x) { const u32 b = bits_of_f32(x); return f32_of_bits(b & 0x7f800000u ? b : b & 0x80000000u); }
static inline f32 saturate(f32 x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
static inline f32 abs_f32(f32 x) { return f32_of_bits(bits_of_f32(x) & 0x7fffffffu); }
static inline f64 abs_f64(f64 x) { return f64_of_bits(bits_of_f64(x) & ~(1ull << 63)); }
static inline f32 copysign_f32(f32 x, f32 sign) {
  return f32_of_bits((bits_of_f32(x) & 0x7fffffffu) | (bits_of_f32(sign) & 0x80000000u));
}
static inline f64 copysign_f64(f64 x, f64 sign) {
  return f64_of_bits((bits_of_f64(x) & ~(1ull << 63)) | (bits_of_f64(sign) & 1ull << 63));
}

/* A NaN loses against a number; two NaNs give the canonical one; -0 < +0. */
static inline f32 max_f32(f32 x, f32 y) {
  f32 r = x > y ? x : y;
  r = x == y ? f32_of_bits(bits_of_f32(x) & bits_of_f32(y)) : r;
  r = y != y ? x : r;
  return r != r ? f32_of_bits(0x7fffffffu) : r;
}
static inline f32 min_f32(f32 x, f32 y) {
  f32 r = x < y ? x : y;
  r = x == y ? f32_of_bits(bits_of_f32(x) | bits_of_f32(y)) : r;
  r = y != y ? x : r;
  return r != r ? f32_of_bits(0x7fffffffu) : r;
}
static inline f64 max_f64(f64 x, f64 y) {
  f64 r = x > y ? x : y;
  r = x == y ? f64_of_bits(bits_of_f64(x) & bits_of_f64(y)) : r;
  r = y != y ? x : r;
  return r != r ? f64_of_bits(0x7fffffffffffffffull) : r;
}
static inline f64 min_f64(f64 x, f64 y) {
  f64 r = x < y ? x : y;
  r = x == y ? f64_of_bits(bits_of_f64(x) | bits_of_f64(y)) : r;
  r = y != y ? x : r;
  return r != r ? f64_of_bits(0x7fffffffffffffffull) : r;
}

/* Rounded float to integer: out of range goes to the nearest end, NaN to a value that the instruction fixes. */
static inline u16 cvt_u16(f64 x, u16 nan) { return x != x ? nan : x <= 0 ? 0 : x >= 65535 ? 65535 : (u16)x; }
static inline i16 cvt_s16(f64 x, u16 nan) { return x != x ? (i16)nan : x <= -32768 ? -32768 : x >= 32767 ? 32767 : (i16)x; }
static inline u32 cvt_u32(f64 x, u32 nan) { return x != x ? nan : x <= 0 ? 0 : x >= 4294967295.0 ? ~0u : (u32)x; }
static inline i32 cvt_s32(f64 x, u32 nan) {
  return x != x ? (i32)nan : x <= -2147483648.0 ? -2147483647 - 1 : x >= 2147483647.0 ? 2147483647 : (i32)x;
}
static inline u64 cvt_u64(f64 x, u64 nan) { return x != x ? nan : x <= 0 ? 0 : x >= 18446744073709551616.0 ? ~0ull : (u64)x; }
static inline i64 cvt_s64(f64 x, u64 nan) {
  const i64 most = 0x7fffffffffffffffll;
  return x != x ? (i64)nan : x <= -9223372036854775808.0 ? -most - 1 : x >= 9223372036854775808.0 ? most : (i64)x;
}
