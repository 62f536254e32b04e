/** A family of GPUs with the same kind of matrix units and host. */
export type Generation = 'volta' | 'ampere' | 'ada' | 'hopper' | 'blackwell' | 'cdna' | 'ascend';

/**
 * A kernel of attention that only some generations have. Source: FlashAttention's README (3 on Hopper), cuDNN's fused attention
 * (from Ampere on).
 */
export type OwnAttention = 'flash3' | 'cudnn';

/** What all GPUs of a generation have in common. */
interface GenerationFacts {
  /** Network bandwidth of the generation's usual machine, Gbit/s per GPU. */
  readonly nicGbit: number;
  /** Rate of float32 matmuls (TF32 if the GPU has it) divided by the rate of 16-bit matmuls. */
  readonly fp32Rate: number;
  /** Whether float32 matmuls are planned in TF32, which PyTorch uses only if a program allows it. */
  readonly hasTf32: boolean;
  /** Rate of fp8 matmuls divided by the rate of 16-bit matmuls; null: the matrix units do not compute in fp8. */
  readonly fp8Rate: number | null;
  /** The kernels of attention that only some generations have, of those that run here. */
  readonly ownAttention: readonly OwnAttention[];
  /** Share of the measured rate of 16-bit matmuls that trainings sustain; see [Note: sustained rate]. */
  readonly sustained: number;
  /** Whether cuBLAS's workspaces have the larger size. See memory/allocator.ts. */
  readonly hasWideWorkspace: boolean;
  /** linkGBps: PCIe in one direction, GB/s. gigaTransfers: the CPUs' memory channels times GT/s, for 8 GPUs. */
  readonly host: { readonly linkGBps: number; readonly gigaTransfers: number };
}

/**
 * Source: data sheets of the GPUs and of their usual machines: DGX-1 (4 x EDR for 8 GPUs; 8 channels of DDR4-2133), DGX A100
 * (HDR; 16 of DDR4-3200), DGX H100 (NDR; 16 of DDR5-4800), DGX B200 (16 of DDR5-5600); PCIe 3, 4 and 5 with 16 lanes. Volta
 * has no TF32: 15.7 of 125 TFLOP/s. A machine with 8 GPUs has at most 200 Gbit/s with Ada; AMD's and Ascend's machines have a
 * network card of 200 Gbit/s per GPU. Rates of fp8 are from the largest matmuls of ai-dynamo/aiconfigurator's systems/data
 * (H100, H200; B200, B300, GB200, GB300; L40S): fp8 over bf16 in the same software (SGLang, TensorRT-LLM).
 *
 * [Note: sustained rate] Large 16-bit matmuls draw more power than H100's limit allows for long, so a training sustains less than
 * the rate of a short measurement. 0.86 is fitted on the half of MPT's runs on H100 that is not held out (measured/column-tables.ts); in
 * fp8, published trainings reach the measured rate. Runs on A100 show no such loss beyond `gemmEfficiency`; other generations are not fitted.
 */
export const GENERATIONS: Readonly<Record<Generation, GenerationFacts>> = {
  volta: {
    nicGbit: 50,
    fp32Rate: 15.7 / 125,
    hasTf32: false,
    fp8Rate: null,
    ownAttention: [],
    sustained: 1,
    hasWideWorkspace: false,
    host: { linkGBps: 15.75, gigaTransfers: 8 * 2.133 },
  },
  ampere: {
    nicGbit: 200,
    fp32Rate: 0.5,
    hasTf32: true,
    fp8Rate: null,
    ownAttention: ['cudnn'],
    sustained: 1,
    hasWideWorkspace: false,
    host: { linkGBps: 31.5, gigaTransfers: 16 * 3.2 },
  },
  ada: {
    nicGbit: 25,
    fp32Rate: 0.5,
    hasTf32: true,
    fp8Rate: 1.53,
    ownAttention: ['cudnn'],
    sustained: 1,
    hasWideWorkspace: false,
    host: { linkGBps: 31.5, gigaTransfers: 16 * 3.2 },
  },
  hopper: {
    nicGbit: 400,
    fp32Rate: 0.5,
    hasTf32: true,
    fp8Rate: 1.78,
    ownAttention: ['flash3', 'cudnn'],
    sustained: 0.86,
    hasWideWorkspace: true,
    host: { linkGBps: 63, gigaTransfers: 16 * 4.8 },
  },
  blackwell: {
    nicGbit: 400,
    fp32Rate: 0.5,
    hasTf32: true,
    fp8Rate: 1.78,
    ownAttention: ['cudnn'],
    sustained: 1,
    hasWideWorkspace: true,
    host: { linkGBps: 63, gigaTransfers: 16 * 5.6 },
  },
  cdna: {
    nicGbit: 200,
    fp32Rate: 0.5,
    hasTf32: false,
    fp8Rate: null,
    ownAttention: [],
    sustained: 1,
    hasWideWorkspace: false,
    host: { linkGBps: 63, gigaTransfers: 16 * 4.8 },
  },
  ascend: {
    nicGbit: 200,
    fp32Rate: 0.25,
    hasTf32: false,
    fp8Rate: null,
    ownAttention: [],
    sustained: 1,
    hasWideWorkspace: false,
    host: { linkGBps: 31.5, gigaTransfers: 16 * 3.2 },
  },
};
