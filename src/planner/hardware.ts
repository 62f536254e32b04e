import { nearest } from '../config';
import { ConfigError, ownValue, shortened } from '../core';
import { GENERATIONS, type Generation } from './generations';

/** A GPU's published figures. */
export interface Gpu {
  /** Dense peak at bf16 (fp16 on V100), TFLOP/s. */
  readonly tflops: number;
  /** The highest rate that a large matmul reaches, TFLOP/s. */
  readonly gemmTflops: number;
  /** Memory bandwidth, TB/s. */
  readonly hbmTBps: number;
  /** Memory in GiB, as in the GPU's name: 80 means 81920 MiB; CUDA offers a little less (allocator.ts). */
  readonly memoryGB: number;
  /** Bandwidth within a node in one direction, GB/s per GPU: NVLink, XGMI, HCCS, or PCIe if there is no other link. */
  readonly linkGBps: number;
  /** The user's price of this hardware, USD per GPU hour; null: the price in prices.ts applies. */
  readonly usdPerHour: number | null;
  readonly generation: Generation;
  /** Number of streaming multiprocessors (AMD: compute units; Ascend: cube cores). */
  readonly sms: number;
  /** The board's power limit, W. */
  readonly powerW: number;
  /** Where the figures were published. If no measurement of gemmTflops is known, `gemm` is null and gemmTflops is estimated. */
  readonly sources: { readonly figures: string; readonly gemm: string | null };
  /** Bandwidth between nodes, Gbit/s per GPU; only if the kind is one specific machine. */
  readonly nicGbit?: number;
}

/** The kind of GPU, and its machines, for which a model is planned. */
export interface Hardware extends Gpu {
  readonly name: string;
  readonly gpusPerNode: number;
  readonly nicGbit: number;
}

/** Rates of the best matmul of many shapes, mean of 100 runs. */
const MAMF = "stas00/ml-engineering, compute/accelerator, MAMF table (PyTorch's best shape)";
/** Rates of the best square bf16 matmul, sizes 1024 to 10240. */
const SQUARE = 'zzc0721/torch-performance-test-data (best square matmul of PyTorch)';
/** Rates of the best of three matmuls. PyTorch's best shape is 9 to 17% faster on Blackwell, and 1% faster on H100. */
const NEAR_SQUARE = 'ai-dynamo/aiconfigurator, systems/data (bf16, 4096 to 16384 x 8192 x 8192)';
const NVIDIA = "NVIDIA's data sheet";

/**
 * Source: the vendors' data sheets for tflops (dense), hbm, memory and links; NVIDIA's and AMD's architecture white papers for
 * multiprocessors; gemmTflops are measured, at the board's own power limit.
 * A800 and H800 are A100 and H100 with 400 GB/s of NVLink, both directions together. Cards without NVLink send over PCIe; L40S,
 * whose host has two root complexes, reaches 5 GB/s in groups of four (nccl-tests published by ai-dynamo/aiconfigurator). RTX
 * 4090 and 5090 have no peer-to-peer copies. MI250X: one of its two dies, which PyTorch counts as a GPU. Prices are in prices.ts.
 */
export const GPUS = {
  'V100-32G': gpu('volta', 80, 300, [125, 95, 0.9, 32, 150], NVIDIA, SQUARE),
  'A100-40G': gpu('ampere', 108, 400, [312, 271, 1.555, 40, 300], NVIDIA, SQUARE),
  'A100-80G': gpu('ampere', 108, 400, [312, 271, 2.0, 80, 300], NVIDIA, MAMF),
  'A100-PCIe-40G': gpu('ampere', 108, 250, [312, 234, 1.555, 40, 31.5], NVIDIA, SQUARE),
  'A100-PCIe-80G': gpu('ampere', 108, 300, [312, 253, 1.935, 80, 31.5], NVIDIA, MAMF),
  'A800-80G': gpu('ampere', 108, 400, [312, 271, 2.0, 80, 200], NVIDIA, SQUARE),
  'A10-24G': gpu('ampere', 72, 150, [125, 70, 0.6, 24, 31.5], NVIDIA),
  'RTX3090-24G': gpu('ampere', 82, 350, [71, 76, 0.936, 24, 31.5], NVIDIA, SQUARE),
  'L40S-48G': gpu('ada', 142, 350, [362, 269, 0.864, 48, 31.5], NVIDIA, SQUARE),
  'L20-48G': gpu('ada', 92, 275, [119.5, 114, 0.864, 48, 31.5], NVIDIA, SQUARE),
  'L4-24G': gpu('ada', 58, 72, [121, 71, 0.3, 24, 31.5], NVIDIA, SQUARE),
  'RTX4090-24G': gpu('ada', 128, 450, [165, 165, 1.008, 24, 20], NVIDIA, SQUARE),
  'H100-80G': gpu('hopper', 132, 700, [989, 794, 3.35, 80, 450], NVIDIA, MAMF),
  'H100-PCIe-80G': gpu('hopper', 114, 350, [756, 496, 2.0, 80, 63], NVIDIA, SQUARE),
  'H100-NVL-94G': gpu('hopper', 132, 400, [835, 548, 3.9, 94, 63], NVIDIA),
  'H100-96G-grand-teton': { ...gpu('hopper', 132, 500, [989, 620, 2.4, 96, 450], NVIDIA), nicGbit: 400 },
  'H800-80G': gpu('hopper', 132, 700, [989, 794, 3.35, 80, 200], NVIDIA, MAMF),
  'H20-96G': gpu('hopper', 78, 500, [148, 142, 4.0, 96, 450], NVIDIA, SQUARE),
  'H200-141G': gpu('hopper', 132, 700, [989, 794, 4.8, 141, 450], NVIDIA, MAMF),
  'B200-180G': gpu('blackwell', 148, 1000, [2250, 1492, 8.0, 180, 900], NVIDIA, NEAR_SQUARE),
  'GB200-186G': gpu('blackwell', 148, 1200, [2500, 1584, 8.0, 186, 900], NVIDIA, NEAR_SQUARE),
  'GB300-288G': gpu('blackwell', 148, 1400, [2500, 1886, 8.0, 288, 900], NVIDIA, NEAR_SQUARE),
  'B300-288G': gpu('blackwell', 148, 1100, [2250, 1621, 8.0, 288, 900], NVIDIA, NEAR_SQUARE),
  'RTX5090-32G': gpu('blackwell', 170, 575, [209.5, 236, 1.792, 32, 50], NVIDIA, SQUARE),
  'MI250X-64G': gpu('cdna', 110, 280, [191.5, 147, 1.638, 64, 175], "AMD's data sheet"),
  'MI300X-192G': gpu('cdna', 304, 750, [1307, 668, 5.3, 192, 448], "AMD's data sheet", MAMF),
  'MI325X-256G': gpu('cdna', 304, 1000, [1307, 785, 6.0, 256, 448], "AMD's data sheet", MAMF),
  'Ascend-910B-64G': gpu(
    'ascend',
    24,
    400,
    [354, 272, 1.6, 64, 196],
    'reports that disagree (256 to 376 TFLOP/s)',
  ),
} as const satisfies Record<string, Gpu>;

export type GpuName = keyof typeof GPUS;

/** Figures that replace the published figures. */
export type HardwareOverrides = Partial<Omit<Hardware, 'name' | 'generation' | 'sms' | 'sources'>>;

/**
 * [Note: power limits] Large matmuls draw as much power as the board allows, so they run slower if this limit is reduced. The
 * ratio of the rates is the ratio of the limits, raised to this exponent. Source: H100 reaches 794 TFLOP/s at 700 W and 620 at
 * 500 W (the two H100s of `GPUS` with these limits). Machines with reduced limits are common: Meta's production cluster caps A100
 * at 350 of 400 W (Touvron et al. 2023, section 2.2.1).
 */
const POWER_EXPONENT = Math.log(794 / 620) / Math.log(700 / 500);

/** Returns the GEMM rate at another power limit; above the board's own limit, the rate stays. */
function gemmAt({ gemmTflops, powerW }: Gpu, limit: number): number {
  return gemmTflops * Math.min(1, limit / powerW) ** POWER_EXPONENT;
}

/** Returns the hardware of that name, with the user's figures. Throws: CONFIG for an unknown name, with the nearest name. */
export function hardwareOf(name: string, overrides: HardwareOverrides = {}): Hardware {
  const key = gpuName(name);
  if (key === undefined) {
    const names = Object.keys(GPUS);
    const begun =
      spelled(name) === '' ? undefined : names.find((each) => spelled(each).startsWith(spelled(name)));
    const close = begun ?? nearest(name, names);
    throw new ConfigError(
      `hardware: '${shortened(name)}' is not known${close === undefined ? '.' : `; did you mean '${close}'?`} Known: ${names.join(', ')}. ` +
        `Describe any other GPU by { like: 'A100-80G', memoryGB: 64, ... }`,
    );
  }
  const known: Gpu = GPUS[key];
  const { nicGbit } = GENERATIONS[known.generation];
  const { powerW = known.powerW } = overrides;
  const gemmTflops = gemmAt(known, powerW);
  return { name: key, gpusPerNode: 8, nicGbit, ...known, gemmTflops, ...overrides };
}

/** Boards that exist with several sizes of memory; their names must contain the size. H100 has 80, 94 or 96 GB. */
const OF_TWO_SIZES = /^(V100|A100|H100)/;

/** The usual board of a name that several boards share, or that lacks the maker's word. Plans say which board it is. */
const USUAL_BOARDS: Readonly<Record<string, keyof typeof GPUS>> = {
  v100: 'V100-32G',
  a100: 'A100-80G',
  h100: 'H100-80G',
  '4090': 'RTX4090-24G',
  '910b': 'Ascend-910B-64G',
};

/** Returns what a short name of a GPU means, as a sentence; undefined: the name is that of one board. */
export function meantBoard(name: string): string | undefined {
  const usual = ownValue(USUAL_BOARDS, spelled(name));
  if (usual === undefined) return undefined;
  const family = usual.replace(/-.*/, '');
  const others = Object.keys(GPUS).filter((each) => each !== usual && each.startsWith(`${family}-`));
  return `'${name}' is planned as ${usual}${others.length === 0 ? '' : `, not as ${others.join(', ')}`}`;
}

/** Returns the known GPU of that name in any spelling. Names of boards of one size may omit the memory ('H20', 'RTX 4090'). */
export function gpuName(name: string): keyof typeof GPUS | undefined {
  const usual = ownValue(USUAL_BOARDS, spelled(name));
  if (usual !== undefined) return usual;
  return (Object.keys(GPUS) as (keyof typeof GPUS)[]).find(
    (known) =>
      spelled(known) === spelled(name) ||
      (!OF_TWO_SIZES.test(known) && spelled(known.replace(/-\d+G$/, '')) === spelled(name)),
  );
}

/** Returns the known boards of the family that a driver names ('NVIDIA L40S'), with their figures. */
export function boardsNamed(name: string): readonly (readonly [name: string, gpu: Gpu])[] {
  const isPcie = /pcie/i.test(name);
  const family = (known: string): string => spelled(known.replace(/(-PCIe)?-\d+G$/, ''));
  const boards = Object.entries<Gpu>(GPUS).filter(([known]) => spelled(name).startsWith(family(known)));
  const same = boards.filter(([known]) => /pcie/i.test(known) === isPcie);
  return same.length > 0 ? same : boards;
}

/** Removes the parts in which names of the same board differ: 'NVIDIA A100-SXM4-80GB' is A100-80G. PCIe boards differ. */
function spelled(name: string): string {
  const bare = name
    .toLowerCase()
    .replaceAll(/nvidia|geforce|tesla|amd|instinct|huawei|pcie|sxm\d?|hbm\d?e?|[^a-z0-9]/g, '')
    .replace(/gb$/, 'g');
  return /pcie/i.test(name) ? `${bare}pcie` : bare;
}

type Figures = readonly [tflops: number, gemm: number, hbm: number, memory: number, link: number];

function gpu(
  generation: Generation,
  sms: number,
  powerW: number,
  [tflops, gemmTflops, hbmTBps, memoryGB, linkGBps]: Figures,
  figures: string,
  gemm: string | null = null,
): Gpu {
  const sources = { figures, gemm };
  return {
    tflops,
    gemmTflops,
    hbmTBps,
    memoryGB,
    linkGBps,
    usdPerHour: null,
    generation,
    sms,
    powerW,
    sources,
  };
}
