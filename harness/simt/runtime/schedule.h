/* Choose what a warp does next: the lanes of the lowest block that can go on; in run_warp, before the blocks. */
schedule:;
  if (W->in_step >= 0) {
    pc = W->in_step;
    W->in_step = -1;
    m = ~0u;
  } else {
    const u32 ready = W->alive & ~W->at_barrier & ~W->waiting;
    if (!ready) return;
    pc = 0x7fffffff;
    for (u32 l = 0; l < 32; l++) pc = (ready >> l & 1u) && W->pc[l] < pc ? W->pc[l] : pc;
    m = lanes_at(W, pc) & ready;
  }
