/**
 * Constants of the time model that are in no specification. [Note: what was fitted on what]
 *
 * "Fitted" constants minimise a weighted sum of mean absolute relative errors over four sets of rows. Weight 1: the 720 rows of
 * measured/vtrain.json that the seeded shuffle of measured/column-tables.ts puts into the fit. Weight 1/2: the 10 rows of
 * measured/megatron-table-1.json. Weight 1/2: MPT's rows. Weight 1/8: TorchTitan's rows. Rows that are held out are
 * not in these sets (measured/column-tables.ts). `npm run calibrate` runs the fit (Nelder-Mead); its results are rounded.
 * "Set" constants come from the named sources, and the fit did not change them. The fit used no held-out row, but all rows were
 * known when the terms of the model were chosen.
 */
export const CALIBRATION = {
  /** Fitted: share of a GPU's measured GEMM roof that large matmuls of a training step reach. */
  gemmEfficiency: 0.945,
  /**
   * Set (no value from 450 to 1050 fits much better): inner size, in elements, at which a matmul loses half of its rate to its
   * prologue and epilogue.
   */
  gemmRampK: 600,
  /** Set: `gemmRampK` of batched small matmuls, whose thread blocks hide each other's prologues and epilogues; elements. */
  batchedRampK: 130,
  /** Fitted: share of a matmul's last, partly filled wave that takes time; the rest overlaps with the wave before. */
  gemmTail: 0.66,
  /** Fitted: share of the matmuls' rate that Megatron-LM's output head reaches if one rank has the whole vocabulary. */
  wholeHeadEfficiency: 0.44,
  /** Set: bytes per score that unfused attention moves in forward beside its matmuls (softmax 4, dropout 5); backward: x 4/3. */
  scoreBytes: 9,
  /** Set: bytes per logit that Megatron-LM's loss moves, forward and backward together; outer-time.ts counts them. */
  lossBytes: 68,
  /** Set: share of the memory bandwidth that element-wise kernels reach (copy kernels on A100: 0.85 to 0.9). */
  memoryEfficiency: 0.88,
  /** Fitted: the CPU's time to launch a kernel in eager PyTorch, seconds. */
  launchSeconds: 39.5e-6,
  /** Fitted: with tensor parallelism, launches take 1 + hostSkew (tp - 1)² times as long, because ranks wait for each other. */
  hostSkew: 0.0035,
  /** Set: share of a link's bandwidth that collectives inside a node reach (NCCL's tests on NVSwitch: 0.7 to 0.8). */
  linkEfficiency: 0.7,
  /** Set: share of the network cards' bandwidth that collectives between nodes reach (RDMA with GPUDirect). */
  nicEfficiency: 0.85,
  /** Set: seconds to start a collective, and per hop of a ring within a node (NVSwitch, all-reduce: 11 + 17 (n - 1) µs). */
  collectiveSeconds: 11e-6,
  hopSeconds: 8.5e-6,
  /** Set: the rest of an iteration: data, loss scaling, counters; seconds. */
  iterationSeconds: 0.4e-3,
  /**
   * Set: relative spread of the nodes' speeds (all wait for the slowest node). Source: the extra time of large runs in Table 1 of
   * Narayanan et al. 2021.
   */
  nodeSpread: 0.004,
  /**
   * Set: share of tensor parallelism's collectives that PyTorch's asynchronous tensor parallelism leaves, from TorchTitan's table
   * 4 of December 2024 (829 and 876 tokens per second and GPU). Its tables 5 and 6 are held out.
   */
  asyncShare: 0.83,
  /** Fitted: seconds per transfer between stages in which the CPU waits for the GPU; the time to send the bytes is added. */
  handOverSeconds: 0.25e-3,
} as const satisfies Readonly<Record<string, number>>;

/** A set of values for the time model's constants (`CALIBRATION`). */
export type Calibration = Readonly<Record<keyof typeof CALIBRATION, number>>;
