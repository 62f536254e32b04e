import {
  CALIBRATION,
  collectiveSeconds,
  type Estimate,
  groupPlaceOf,
  hardwareOf,
  modelFlops,
  modelOf,
  type PlanObject,
  shapeOf,
  withSequences,
} from '../../planner';
import { WarmupCosineLR } from '../../sharding';
import { claimOf, requestNamed } from '../claim';
import type { Functions } from '../expression';
import type { PlanLab } from '../lab';

/** The U-Net of Stable Diffusion XL. Source: its published configuration (unet/config.json of stable-diffusion-xl-base-1.0). */
const UNET = {
  channels: [320, 640, 1280],
  /** Number of transformer layers at each of these widths. */
  depth: [0, 2, 10],
  resnetsDown: 2,
  resnetsUp: 3,
  textTokens: 77,
  textDim: 2048,
  latent: 128,
} as const;

const PEAK = 8 * 312e12;

/** Returns the operations of a 3 x 3 convolution. */
function conv(positions: number, inputs: number, outputs: number): number {
  return 2 * 9 * positions * inputs * outputs;
}

function resnet(positions: number, inputs: number, outputs: number): number {
  const shortcut = inputs === outputs ? 0 : 2 * positions * inputs * outputs;
  return conv(positions, inputs, outputs) + conv(positions, outputs, outputs) + shortcut;
}

/** Returns the operations of layers of attention, cross-attention and gated feed-forward, between two projections. */
function transformer(positions: number, dim: number, depth: number): number {
  if (depth === 0) return 0;
  const self = 2 * positions * 4 * dim ** 2 + 4 * positions ** 2 * dim;
  const { textTokens, textDim } = UNET;
  const cross = 4 * positions * dim ** 2 + 4 * textTokens * textDim * dim + 4 * positions * textTokens * dim;
  const feedForward = 2 * positions * (8 + 4) * dim ** 2;
  return depth * (self + cross + feedForward) + 4 * positions * dim ** 2;
}

/** Returns the FLOPs of one forward on an image of `latent` x `latent` latents (a side has 8 pixels per latent). */
function sdxlForwardFlops(latent: number = UNET.latent): number {
  const { channels, depth, resnetsDown, resnetsUp } = UNET;
  let flops = conv(latent ** 2, 4, channels[0]) + conv(latent ** 2, channels[0], 4);
  const skips: number[] = [channels[0]];
  let width: number = channels[0];
  channels.forEach((dim, level) => {
    const positions = (latent / 2 ** level) ** 2;
    for (let i = 0; i < resnetsDown; i++) {
      flops += resnet(positions, width, dim) + transformer(positions, dim, depth[level] ?? 0);
      width = dim;
      skips.push(width);
    }
    if (level === channels.length - 1) return;
    flops += conv(positions / 4, dim, dim);
    skips.push(width);
  });
  const middle = (latent / 4) ** 2;
  flops += 2 * resnet(middle, width, width) + transformer(middle, width, depth[2]);
  [...channels].reverse().forEach((dim, i) => {
    const level = channels.length - 1 - i;
    const positions = (latent / 2 ** level) ** 2;
    for (let j = 0; j < resnetsUp; j++) {
      flops +=
        resnet(positions, width + (skips.pop() ?? 0), dim) + transformer(positions, dim, depth[level] ?? 0);
      width = dim;
    }
    if (level > 0) flops += conv(4 * positions, dim, dim);
  });
  return flops;
}

/**
 * Returns the speed of training on 8 A100 in samples per second, by default at 1024 x 1024. The GPUs are assumed to reach 45% (30
 * to 60%) of their peak, which is usual for such convolutions.
 */
function sdxlSamplesPerSecond(latent: number = UNET.latent): Estimate {
  const at = (share: number): number => (share * PEAK) / (3 * sdxlForwardFlops(latent));
  return { value: at(0.45), low: at(0.3), high: at(0.6) };
}

/** Returns the largest side in latents, in steps of 64 pixels, with which this speed is reached. */
function largestLatent(samplesPerSecond: number): number {
  let latent: number = UNET.latent;
  while (latent > 8 && sdxlSamplesPerSecond(latent).value < samplesPerSecond) latent -= 8;
  return latent;
}

/** The document's description of its run, from claims/wan22-fsdp.json. */
const WAN_GIVEN = claimOf('wan.mem.params').given as {
  readonly params: number;
  readonly layers: number;
  readonly gpus: number;
  readonly gpu: 'A100-80G';
  readonly batch: number;
  readonly grad_accum: number;
  readonly ulysses: number;
};

/** The model with two experts as it was published. */
const PUBLISHED = shapeOf(modelOf('wan2.2-a14b'));

const { gpus, batch, grad_accum, layers } = WAN_GIVEN;
/** Samples per GPU and step, for any number of nodes. */
const PER_GPU = 32;

/** Returns the functions of "Wan2.2-S2V-14B (27B MoE) trained with FSDP on 8 A100". `seq` counts the tokens of a sample. */
export function wanFormulas(lab: PlanLab): Functions {
  return { ...FIXED, ...timesOf(lab) };
}

const FIXED: Functions = {
  /** Operations of training on one sample of the published model, without recompute. */
  wanFlops: (seq: number) => modelFlops({ ...PUBLISHED, seq }, 1),
  /** Parameters that a sample's computation uses. */
  wanComputing: () => PUBLISHED.layers * PUBLISHED.layerParams + PUBLISHED.outerParams,
  sdxlSamples: (share: 'value' | 'low' | 'high') => sdxlSamplesPerSecond()[share],
  sdxlFlops: () => sdxlForwardFlops(),
  /** The largest side, in pixels, of the images with which training of SDXL on 8 A100 reaches this speed. */
  sdxlSide: (samplesPerSecond: number) => 8 * largestLatent(samplesPerSecond),
  /** The learning rate of the document's schedule. */
  lrAt: (step: number) =>
    new WarmupCosineLR({ lr: 2.5e-5 }, { warmupSteps: 10_000, maxSteps: 150_000, etaMin: 2.5e-6 }).lrAt(step),
  exponential: (value: number, digits: number) => value.toExponential(digits),
  linkEfficiency: () => CALIBRATION.linkEfficiency,
  nicEfficiency: () => CALIBRATION.nicEfficiency,
};

/** Returns functions of predictions for the requests 'published' and 'described'. */
function timesOf(lab: PlanLab): Functions {
  const of = (name: string, seq: number): PlanObject => {
    const request = requestNamed('wan22-fsdp', name);
    return { ...request, model: withSequences(request.model, seq) };
  };
  const predict = (name: string, seq: number) => lab.predict(of(name, seq));
  const attention = (name: string, kind: 'flash' | 'flash3'): number =>
    lab.predict({ ...of(name, 32_760), attention: kind }).time.computeByCause.attention;
  return {
    wanSamples: (name: string, seq: number) => (batch * grad_accum) / predict(name, seq).seconds.value,
    wanSeconds: (name: string, seq: number) => predict(name, seq).seconds.value,
    wanMfu: (name: string, seq: number) => 100 * predict(name, seq).mfu,
    /** Percentage of a step in which ranks wait for FSDP's collectives. */
    waits: (name: string, seq: number) => {
      const { exposedComm, seconds } = predict(name, seq).time;
      return (100 * exposedComm) / seconds;
    },
    /** Percentage of a step in which ranks wait for FSDP's collectives and Ulysses' all-to-alls. */
    waitsWithUlysses: (name: string, seq: number) => {
      const { exposedComm, seconds } = predict(name, seq).time;
      const waiting = exposedComm + ulyssesSeconds(seq);
      return (100 * waiting) / (seconds - exposedComm + waiting);
    },
    /** Percentage of a step in which ranks wait if FSDP's communication does not overlap with computation at all. */
    waitsForAll: (name: string, seq: number) => {
      const { exposedComm, seconds, commBytes } = predict(name, seq).time;
      const serial = commBytes.dp / (hardwareOf('A100-80G').linkGBps * 1e9 * CALIBRATION.linkEfficiency);
      return (100 * serial) / (seconds - exposedComm + serial);
    },
    /** GB of a GPU's activations with every 4th block checkpointed (interpolated), and with all blocks checkpointed. */
    activationsEvery4: (name: string, seq: number) => {
      const [none, full] = [
        lab.memory(of(name, seq)),
        lab.memory({ ...of(name, seq), activationCheckpointing: 'full' }),
      ];
      return (0.75 * none.activations + 0.25 * full.activations) / 1e9;
    },
    activationsAll: (name: string, seq: number) =>
      lab.memory({ ...of(name, seq), activationCheckpointing: 'full' }).activations / 1e9,
    /** Speed per GPU of `nodes` nodes, in percent of the speed per GPU of one node; each GPU has a network card of `nicGbit`. */
    scaled: (nodes: number, seq: number, nicGbit: number) => {
      const seconds = (count: number): number =>
        lab.predict({
          ...of('published', seq),
          gpus: count,
          nicGbit,
          ...{ batch: 4, accumulation: PER_GPU / 4 },
        }).seconds.value;
      return (100 * seconds(gpus)) / seconds(nodes * gpus);
    },
    /** Change of attention's time in percent with FlashAttention-3. */
    flash3: (name: string) => 100 * (attention(name, 'flash3') / attention(name, 'flash') - 1),
  };
}

/**
 * Returns the time of a step's all-to-alls: q, k, v and the output of every block and microbatch, in forward and backward.
 * Source: Jacobs et al. 2023, "DeepSpeed Ulysses", section 3.2.
 */
function ulyssesSeconds(tokens: number): number {
  const hardware = hardwareOf('A100-80G');
  // Each of the 8 ranks holds an eighth of the tokens; an all-to-all exchanges one tensor of these tokens.
  const bytes = ((batch * tokens) / gpus) * 5120 * 2;
  const exchangeSeconds = collectiveSeconds(
    'allToAll',
    bytes,
    groupPlaceOf(gpus, 1, gpus),
    hardware,
    CALIBRATION,
  );
  return grad_accum * layers * 2 * 4 * exchangeSeconds;
}
