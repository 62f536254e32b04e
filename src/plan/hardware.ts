import { nearest } from '../config/nearest';
import { ConfigError } from '../core/errors';

/** A GPU's published figures. */
export interface Gpu {
  /** Dense peak at bf16 (fp16 on V100), TFLOP/s. */
  readonly tflops: number;
  /** The highest rate that a large matmul reaches, TFLOP/s. */
  readonly gemmTflops: number;
  /** Memory bandwidth, TB/s. */
  readonly hbmTBps: number;
  /** As in the GPU's name, in GiB: 80 means 81920 MiB; CUDA offers a little less (allocator.ts). */
  readonly memoryGB: number;
  /** Bandwidth within a node in one direction, GB/s per GPU. */
  readonly linkGBps: number;
  /** Price given with the hardware, USD per GPU hour; null: see prices.ts. */
  readonly usdPerHour: number | null;
  readonly generation: 'volta' | 'ampere' | 'hopper' | 'blackwell';
  /** Bandwidth between nodes, Gbit/s per GPU, if the kind implies a machine. */
  readonly nicGbit?: number;
}

/** Where a model is planned to run. */
export interface Hardware extends Gpu {
  readonly name: string;
  readonly gpusPerNode: number;
  readonly nicGbit: number;
}

/**
 * Source: NVIDIA's data sheets for tflops, hbm, memory and links; gemmTflops are cuBLAS's rates on large matmuls (V100 and
 * A100: public GEMM benchmarks; H100 and its 500 W variant: vendors' measurements). Prices are in prices.ts.
 */
export const GPUS = {
  'V100-32G': gpu('volta', [125, 95, 0.9, 32, 150]),
  'A100-40G': gpu('ampere', [312, 271, 1.555, 40, 300]),
  'A100-80G': gpu('ampere', [312, 271, 2.0, 80, 300]),
  'H100-80G': gpu('hopper', [989, 794, 3.35, 80, 450]),
  'H100-96G-grand-teton': { ...gpu('hopper', [989, 620, 2.4, 96, 450]), nicGbit: 400 },
  'H200-141G': gpu('hopper', [989, 794, 4.8, 141, 450]),
  'B200-180G': gpu('blackwell', [2250, 1800, 8.0, 180, 900]),
} as const satisfies Record<string, Gpu>;

/** Gbit/s per GPU of the generation's usual machine (DGX A100: HDR; DGX H100: NDR; DGX-1: 4 x EDR for 8 GPUs). */
const USUAL_NIC: Record<Gpu['generation'], number> = { volta: 50, ampere: 200, hopper: 400, blackwell: 400 };

export type GpuName = keyof typeof GPUS;

/** Replaces any published figure. */
export type HardwareOverrides = Partial<Omit<Hardware, 'name' | 'generation'>>;

/** Returns the hardware of that name, with the user's figures. Throws: CONFIG for an unknown name, with the nearest. */
export function hardwareOf(name: string, overrides: HardwareOverrides = {}): Hardware {
  const [key, known] = Object.entries<Gpu>(GPUS).find(([each]) => spelled(each) === spelled(name)) ?? [];
  if (key === undefined || known === undefined) {
    const names = Object.keys(GPUS);
    const close = names.find((each) => spelled(each).startsWith(spelled(name))) ?? nearest(name, names);
    throw new ConfigError(
      `hardware: '${name}' is not known${close === undefined ? '.' : `; did you mean '${close}'?`} Known: ${names.join(', ')}. ` +
        `Describe any other GPU by { like: 'A100-80G', memoryGB: 64, ... }`,
    );
  }
  return { name: key, gpusPerNode: 8, nicGbit: USUAL_NIC[known.generation], ...known, ...overrides };
}

/** Removes the parts in which names of the same board differ: 'NVIDIA A100-SXM4-80GB' is A100-80G. A PCIe board differs. */
function spelled(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/nvidia|sxm\d?|hbm\d?e?|[^a-z0-9]/g, '')
    .replace(/gb$/, 'g');
}

type Figures = readonly [tflops: number, gemm: number, hbm: number, memory: number, link: number];

function gpu(generation: Gpu['generation'], figures: Figures): Gpu {
  const [tflops, gemmTflops, hbmTBps, memoryGB, linkGBps] = figures;
  return { tflops, gemmTflops, hbmTBps, memoryGB, linkGBps, usdPerHour: null, generation };
}
