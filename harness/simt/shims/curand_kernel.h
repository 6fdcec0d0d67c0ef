// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), with the state
// layout and the order of outputs that cuRAND documents for its device API.
#pragma once
struct curandStatePhilox4_32_10_t {
  uint4 counter, output;
  uint2 key;
  unsigned next;  // element of output that is drawn next
};

__device__ inline uint4 philox_block(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; round++) {
    if (round) key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    const unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
  }
  return counter;
}

__device__ inline void philox_skip(uint4& counter, unsigned long long steps) {
  const unsigned long long low = ((unsigned long long)counter.y << 32 | counter.x) + steps;
  unsigned long long high = (unsigned long long)counter.w << 32 | counter.z;
  if (low < steps) high++;
  counter = make_uint4((unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32));
}

__device__ inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                   curandStatePhilox4_32_10_t* state) {
  state->key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
  state->counter = make_uint4(0, 0, (unsigned)subsequence, (unsigned)(subsequence >> 32));
  philox_skip(state->counter, offset >> 2);
  state->output = philox_block(state->counter, state->key);
  state->next = offset & 3;
}

__device__ inline unsigned curand(curandStatePhilox4_32_10_t* state) {
  const uint4 output = state->output;
  const unsigned drawn = state->next == 0   ? output.x
                         : state->next == 1 ? output.y
                         : state->next == 2 ? output.z
                                            : output.w;
  if (++state->next == 4) {
    philox_skip(state->counter, 1);
    state->output = philox_block(state->counter, state->key);
    state->next = 0;
  }
  return drawn;
}

__device__ inline float curand_uniform(curandStatePhilox4_32_10_t* state) {
  return curand(state) * 2.3283064e-10f + 2.3283064e-10f / 2.0f;
}

__device__ inline float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  float4 drawn;
  drawn.x = curand_uniform(state);
  drawn.y = curand_uniform(state);
  drawn.z = curand_uniform(state);
  drawn.w = curand_uniform(state);
  return drawn;
}
