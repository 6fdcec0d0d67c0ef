/* A warp: 32 lanes in arrays, each with a program counter (a block number) of its own. */
typedef union { u32 u[32]; i32 s[32]; f32 f[32]; } Narrow;
typedef union { u64 u[32]; i64 s[32]; f64 f[32]; } Wide;

typedef struct {
  Narrow narrow[NARROW_SLOTS];
  Wide wide[WIDE_SLOTS];
  i32 pc[32];
  i32 in_step;      /* the block where all 32 lanes are, or -1: then look at pc */
  u32 alive;        /* lanes that have not exited */
  u32 at_barrier;   /* lanes parked at the block's barrier */
  u32 waiting;      /* lanes waiting for others of their member mask */
  u32 voted;        /* lanes parked at a barrier that votes, or back from it and not yet past it */
  u32 first_thread; /* thread index of lane 0 */
  u8 *local;        /* local memory of lane 0; the others follow */
} Warp;

typedef struct {
  u32 x, y, z, grid_x, grid_y, grid_z, threads;
  u32 trapped;
  u32 voting;        /* lanes that have voted yes at the barrier that the block is coming to */
  u32 voted, voters; /* of the last barrier: lanes that had voted yes, and lanes that had come */
  const u8 *parameters;
  u8 *shared;
  Uniform uniform;
} Block;

/* Memory. A global address is a real one; shared and local addresses are offsets. */
#define LOCAL(l) (W->local + (usize)(l) * LOCAL_BYTES)
#define POINTER_GLOBAL(T, a) ((T *)(uintptr)(a))
#define POINTER_SHARED(T, a) ((T *)(S + (u32)(a)))
#define LOAD_GLOBAL(T, a) (*(const T *)(uintptr)(a))
#define LOAD_SHARED(T, a) (*(const T *)(S + (u32)(a)))
#define LOAD_LOCAL(T, a) (*(const T *)(LOCAL(l) + (u32)(a)))
#define STORE_GLOBAL(T, a, v) (*(T *)(uintptr)(a) = (v))
#define STORE_SHARED(T, a, v) (*(T *)(S + (u32)(a)) = (v))
#define STORE_LOCAL(T, a, v) (*(T *)(LOCAL(l) + (u32)(a)) = (v))

/* The step between lanes' addresses where it is the same for all, else -1. */
#define STEP(T) \
  static inline u64 step_##T(const T *address) { \
    const T first = address[0], step = (T)(address[1] - first); \
    T odd = 0; \
    for (u32 l = 0; l < 32; l++) odd |= address[l] ^ (T)(first + (T)l * step); \
    return odd ? ~0ull : step; \
  }
STEP(u32)
STEP(u64)

/* Lanes that are at a block and not parked at the barrier. */
static inline u32 lanes_at(const Warp *W, i32 pc) {
  u32 lanes = 0;
  for (u32 l = 0; l < 32; l++) lanes |= (u32)(W->pc[l] == pc) << l;
  return lanes & W->alive & ~W->at_barrier;
}
