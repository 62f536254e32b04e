/**
 * Constants of the time model that no specification states. [Note: what was fitted on what]
 *
 * `fitted` ones minimise the mean absolute relative error over the 720 rows of vtrain-single-node-a100.json that the seeded
 * shuffle of measured/measured-layouts.ts gives to the fit, plus half of that over the 10 rows of test/data/megatron2021-table1.json
 * (npm run calibrate; Nelder-Mead; rounded). `set` ones were read from the same two files' structure or from the sources named,
 * and were not moved by the fit. The held-out rows moved no
 * constant of the fit; causes were chosen, and `set` ones read, with all rows in sight. No other measured run was used.
 * They are frozen.
 */
export const CALIBRATION = {
  /** Fitted: share of a GPU's measured GEMM roof that large matmuls of a training step reach. */
  gemmEfficiency: 0.955,
  /** Fitted: inner size at which a matmul has lost half of its rate to its prologue and epilogue, elements. */
  gemmRampK: 600,
  /** Set: the same where a batch of small matmuls fills the multiprocessors, whose blocks hide each other's ends. */
  batchedRampK: 130,
  /** Fitted: how much of a matmul's last, partly filled wave is waited for; the rest overlaps with the wave before. */
  gemmTail: 0.47,
  /** Fitted: share of the matmuls' rate that Megatron-LM's head reaches where one rank has the whole vocabulary. */
  wholeHeadEfficiency: 0.4,
  /** Set: bytes that unfused attention moves for each score forward, beside its matmuls: softmax 4, dropout with its mask 5; backward 4/3 of it. */
  scoreBytes: 9,
  /** Fitted: bytes per logit of Megatron-LM's loss, both passes. */
  lossBytes: 25,
  /** Set: share of the memory bandwidth that element-wise kernels reach (copy kernels on A100: 0.85 to 0.9). */
  memoryEfficiency: 0.88,
  /** Fitted: the host's time to launch a kernel from eager PyTorch, seconds. */
  launchSeconds: 30e-6,
  /** Fitted: how much longer launches take for the square of further ranks that wait for each other in every layer. */
  hostSkew: 0.0033,
  /** Set: share of a link's bandwidth that collectives inside a node reach (NCCL's tests on NVSwitch: 0.7 to 0.8). */
  linkEfficiency: 0.7,
  /** Set: share of the network cards' bandwidth that collectives between nodes reach (RDMA with GPUDirect). */
  nicEfficiency: 0.85,
  /** Set: start of a collective, and each further rank of a ring's pass inside a node, seconds (NVSwitch, all-reduce: 11 + 17 (n - 1) µs). */
  collectiveSeconds: 11e-6,
  hopSeconds: 8.5e-6,
  /** Set: what an iteration takes besides: data, loss scaling, counters; seconds. */
  iterationSeconds: 0.4e-3,
  /** Set: relative spread of the nodes' speeds, of which the slowest is waited for; what large runs of Table 1 take beyond small ones. */
  nodeSpread: 0.004,
  /** Fitted: what each hand-over between stages takes besides its bytes (the host waits for the device), seconds. */
  handOverSeconds: 0.5e-3,
} as const satisfies Readonly<Record<string, number>>;

/** Constants of that kind. */
export type Calibration = Readonly<Record<keyof typeof CALIBRATION, number>>;
