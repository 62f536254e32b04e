/**
 * Constants of the time model that no specification states. [Note: what was fitted on what]
 *
 * `fitted` ones minimise the mean absolute relative error over the 720 rows of vtrain-single-node-a100.json that the seeded
 * shuffle of measured/measured-layouts.ts gives to the fit, plus half of that over the 10 rows of megatron2021-table1.json
 * (npm run calibrate; Nelder-Mead; rounded). `set` ones were read from the same two files' structure or from the sources named,
 * and were not moved by the fit. The held-out rows moved no
 * constant of the fit; causes were chosen, and `set` ones read, with all rows in sight. No other measured run was used.
 */
export interface Calibration {
  /** Fitted: share of a GPU's measured GEMM roof that large products of a training step reach. */
  readonly gemmEfficiency: number;
  /** Fitted: inner size at which a product has lost half of its rate to its prologue and epilogue, elements. */
  readonly gemmRampK: number;
  /** Set: the same where a batch of small products fills the multiprocessors, whose blocks hide each other's ends. */
  readonly batchedRampK: number;
  /** Fitted: how much of a product's last, partly filled wave is waited for; the rest overlaps with the wave before. */
  readonly gemmTail: number;
  /** Fitted: share of the products' rate that Megatron-LM's head reaches where one rank has the whole vocabulary. */
  readonly wholeHeadEfficiency: number;
  /** Set: bytes that unfused attention moves for each score forward, beside its products: softmax 4, dropout with its mask 5; backward 4/3 of it. */
  readonly scoreBytes: number;
  /** Fitted: bytes a logit of Megatron-LM's loss, both passes. */
  readonly lossBytes: number;
  /** Set: share of the memory bandwidth that element-wise kernels reach (copy kernels on A100: 0.85 to 0.9). */
  readonly memoryEfficiency: number;
  /** Fitted: the host's time to launch a kernel from eager PyTorch, seconds. */
  readonly launchSeconds: number;
  /** Fitted: how much longer launches take for the square of further ranks that wait for each other in every layer. */
  readonly hostSkew: number;
  /** Set: share of a link's bandwidth that collectives inside a node reach (NCCL's tests on NVSwitch: 0.7 to 0.8). */
  readonly linkEfficiency: number;
  /** Set: share of the network cards' bandwidth that collectives between nodes reach (RDMA with GPUDirect). */
  readonly nicEfficiency: number;
  /** Set: start of a collective, and each further rank of a ring's pass inside a node, seconds (NVSwitch, all-reduce: 11 + 17 (n - 1) µs). */
  readonly collectiveSeconds: number;
  readonly hopSeconds: number;
  /** Set: what an iteration takes besides: data, loss scaling, counters; seconds. */
  readonly iterationSeconds: number;
  /** Set: relative spread of the nodes' speeds, of which the slowest is waited for; what large runs of Table 1 take beyond small ones. */
  readonly nodeSpread: number;
  /** Fitted: what each hand-over between stages takes besides its bytes (the host waits for the device), seconds. */
  readonly handOverSeconds: number;
}

/** Frozen. See [Note: what was fitted on what]. */
export const CALIBRATION: Calibration = {
  gemmEfficiency: 0.955,
  gemmRampK: 600,
  batchedRampK: 130,
  gemmTail: 0.47,
  wholeHeadEfficiency: 0.4,
  scoreBytes: 9,
  lossBytes: 25,
  memoryEfficiency: 0.88,
  launchSeconds: 30e-6,
  hostSkew: 0.0033,
  linkEfficiency: 0.7,
  nicEfficiency: 0.85,
  collectiveSeconds: 11e-6,
  hopSeconds: 8.5e-6,
  iterationSeconds: 0.4e-3,
  nodeSpread: 0.004,
  handOverSeconds: 0.5e-3,
};
