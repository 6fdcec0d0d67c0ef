/* Run a range of blocks, one after another; warps of a block take turns between barriers. */

typedef struct {
  u32 first, last;   /* linear block indices, [first, last) */
  u32 grid_x, grid_y, grid_z;
  u32 threads;       /* of a block */
  u32 dynamic_bytes; /* of shared memory */
  u32 fill;          /* byte that fresh shared memory is filled with; above 255: it is left as it was */
  u32 poison;        /* byte that registers and local memory are filled with too; above 255: they are left so */
  const u8 *parameters;
  u32 block;         /* out: the block that failed */
  u32 at_barrier, waiting; /* out: threads of it that were stuck, and where */
} Launch;

enum { DONE, DEADLOCK, TRAPPED, NO_MEMORY };

static void start_warp(Warp *W, u32 index, u32 threads, u8 *local) {
  const u32 here = threads - 32 * index;
  W->first_thread = 32 * index;
  W->alive = here >= 32 ? ~0u : (1u << here) - 1;
  W->at_barrier = W->waiting = W->voted = 0;
  W->in_step = here >= 32 ? 0 : -1;
  W->local = local + (usize)W->first_thread * LOCAL_BYTES;
  for (u32 l = 0; l < 32; l++) W->pc[l] = 0;
}

static void poison_warps(Warp *warps, u32 count, u8 *local, int byte) {
  memset(local, byte, (usize)count * 32 * LOCAL_BYTES);
  for (u32 w = 0; w < count; w++) {
    memset(warps[w].narrow, byte, sizeof warps[w].narrow);
    memset(warps[w].wide, byte, sizeof warps[w].wide);
  }
}

static int run_block(Warp *warps, u32 count, Block *B, Launch *launch) {
  for (;;) {
    u32 alive = 0, stuck = 0;
    for (u32 w = 0; w < count; w++) {
      Warp *W = warps + w;
      if (W->alive) run_warp(W, B);
      alive |= W->alive;
      stuck |= W->alive & ~W->at_barrier;
    }
    if (B->trapped) return TRAPPED;
    if (!alive) return DONE;
    if (stuck) break;
    B->voted = B->voting, B->voting = B->voters = 0;
    for (u32 w = 0; w < count; w++) {
      B->voters += popc_b32(warps[w].at_barrier);
      warps[w].at_barrier = 0;
    }
  }
  for (u32 w = 0; w < count; w++) {
    launch->at_barrier += popc_b32(warps[w].alive & warps[w].at_barrier);
    launch->waiting += popc_b32(warps[w].alive & ~warps[w].at_barrier);
  }
  return DEADLOCK;
}

static int run_blocks(Warp *warps, u8 *shared, u8 *local, Launch *launch) {
  const u32 count = (launch->threads + 31) / 32;
  Block B;
  B.grid_x = launch->grid_x, B.grid_y = launch->grid_y, B.grid_z = launch->grid_z;
  B.threads = launch->threads, B.parameters = launch->parameters, B.shared = shared, B.trapped = 0;
  for (u32 b = launch->first; b < launch->last; b++) {
    B.x = b % B.grid_x, B.y = b / B.grid_x % B.grid_y, B.z = b / B.grid_x / B.grid_y;
    if (launch->fill < 256) memset(shared, (int)launch->fill, STATIC_BYTES + launch->dynamic_bytes);
    if (launch->poison < 256) poison_warps(warps, count, local, (int)launch->poison);
    for (u32 w = 0; w < count; w++) start_warp(warps + w, w, launch->threads, local);
    B.voting = B.voted = B.voters = 0;
    set_uniform(&B);
    const int outcome = run_block(warps, count, &B, launch);
    if (outcome != DONE) {
      launch->block = b;
      return outcome;
    }
  }
  return DONE;
}

static usize whole_lines(usize size) { return (size + 127) / 64 * 64; }

#ifdef _WIN32
__declspec(dllexport)
#endif
int simt_launch(Launch *launch) {
  const usize count = (launch->threads + 31) / 32, local_bytes = count * 32 * LOCAL_BYTES;
  Warp *warps = aligned_alloc(64, whole_lines(sizeof(Warp) * count));
  u8 *shared = aligned_alloc(64, whole_lines((usize)STATIC_BYTES + launch->dynamic_bytes));
  u8 *local = aligned_alloc(64, whole_lines(local_bytes));
  int outcome = NO_MEMORY;
  if (warps && shared && local) {
    memset(warps, 0, sizeof(Warp) * count);
    memset(local, 0, local_bytes);
    outcome = run_blocks(warps, shared, local, launch);
  }
  free(warps);
  free(shared);
  free(local);
  return outcome;
}
