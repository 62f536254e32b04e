import { CALIBRATION } from '../../calibration';
import { collectiveSeconds, placeOf } from '../../cost/collective';
import { hardwareOf } from '../../hardware';
import type { Estimate, Prediction } from '../../prediction';
import type { PlanRequestInput } from '../../request';
import type { PlanLab } from '../lab';
import { WAN_GIVEN } from './given';

/** Tokens of one sample: latent frames x rows x columns of patches. Source: Wan2.2's VAE (4, 8, 8) and patches (1, 2, 2). */
export const SIZES = { image: 30 * 52, usual: 21 * 30 * 52, large: 21 * 45 * 80 } as const;

const { gpus, batch, grad_accum, layers } = WAN_GIVEN;

/**
 * The document's layout with 4 whole samples per GPU in place of Ulysses' eighth of 32 samples. Matmuls, attention, activations
 * and FSDP's bytes are the same; `ulyssesSeconds` adds the time of Ulysses' all-to-alls.
 */
const LAYOUT = {
  hardware: 'A100-80G',
  gpus,
  parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
  batch: { global: batch * grad_accum, micro: batch / gpus },
} as const satisfies Omit<PlanRequestInput, 'model'>;

/** The published model (2 x 14.29B), and the described one: 27B in two such experts with a narrower feed-forward. */
export const WAN_REQUESTS = {
  published: { ...LAYOUT, model: 'wan2.2-a14b' },
  described: {
    ...LAYOUT,
    model: {
      kind: 'dit',
      experts: 2,
      layers,
      dim: 5120,
      ffn: 11_904,
      heads: 40,
      textDim: 4096,
      textLen: 512,
    },
  },
} as const satisfies Record<string, PlanRequestInput>;

/**
 * Returns `of` at sizes of video, which the document does not state: 81 frames of 832 x 480, and as bounds one such frame and
 * 81 frames of 1280 x 720.
 */
export function overSizes(of: (tokens: number) => number): Estimate {
  const [image, usual, large] = [of(SIZES.image), of(SIZES.usual), of(SIZES.large)];
  return { value: usual, low: Math.min(image, usual, large), high: Math.max(image, usual, large) };
}

/** Returns the samples per second of all GPUs. */
export function samplesPerSecond({ seconds }: Prediction): number {
  return (batch * grad_accum) / seconds.value;
}

/**
 * Returns the time of a step's all-to-alls: q, k, v and the output of every block and microbatch, in forward and backward.
 * Source: Jacobs et al. 2023, "DeepSpeed Ulysses", section 3.2.
 */
export function ulyssesSeconds(tokens: number): number {
  const hardware = hardwareOf('A100-80G');
  // A rank holds an eighth of the tokens; its tensor is what the all-to-all exchanges.
  const bytes = ((batch * tokens) / gpus) * 5120 * 2;
  const one = collectiveSeconds('allToAll', bytes, placeOf(gpus, 1, gpus), hardware, CALIBRATION);
  return grad_accum * layers * 2 * 4 * one;
}

/** Returns the time of FSDP's collectives of a step if nothing overlaps with them. */
export function serialCommSeconds({ time }: Prediction): number {
  return time.commBytes.dp / (hardwareOf('A100-80G').linkGBps * 1e9 * CALIBRATION.linkEfficiency);
}

/** Returns the percentage of a step in communication: with prefetch and Ulysses, and with neither. */
export function commShares(lab: PlanLab, request: PlanRequestInput, seq: number) {
  const prediction = lab.predict({ ...request, seq });
  const { seconds, exposedComm } = prediction.time;
  const now = exposedComm + ulyssesSeconds(seq);
  const serial = serialCommSeconds(prediction);
  const computing = seconds - exposedComm;
  return { now: (100 * now) / (computing + now), before: (100 * serial) / (computing + serial) };
}

/** Returns a GPU's activations in GB: with every 4th block checkpointed (interpolated), and with all blocks checkpointed. */
export function activations(lab: PlanLab, request: PlanRequestInput, seq: number) {
  const none = lab.memory({ ...request, seq });
  const full = lab.memory({ ...request, seq, recompute: 'full' });
  return {
    every4: (0.75 * none.activations + 0.25 * full.activations) / 1e9,
    all: full.activations / 1e9,
  };
}

/** Returns the command to run on the hardware: the documented block, FSDP and Ulysses, with random latents. */
export function stepCommand(nodes = 1, more = ''): string {
  const where =
    nodes === 1 ? '--standalone' : `--nnodes ${nodes} --rdzv-backend c10d --rdzv-endpoint "$HEAD_NODE:29500"`;
  return `torchrun ${where} --nproc-per-node 8 scripts/python/wan_step.py --ulysses 8 --batch 32 --accumulation 8 --checkpoint-every 4 --frames 81${more}`;
}
