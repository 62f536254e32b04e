import {
  CALIBRATION,
  collectiveSeconds,
  groupPlaceOf,
  hardwareOf,
  modelFlops,
  type PlanObject,
  withSequences,
} from '../../planner';
import { WarmupCosineLR } from '../../sharding';
import { requestNamed } from '../claim';
import type { Functions } from '../expression';
import type { PlanLab } from '../lab';
import { PUBLISHED, WAN_GIVEN } from './given';
import { largestLatent, sdxlForwardFlops, sdxlSamplesPerSecond } from './sdxl';

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
