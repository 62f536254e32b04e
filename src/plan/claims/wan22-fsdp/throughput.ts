import { modelFlops } from '../../model-shape';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import { PUBLISHED, WAN_GIVEN } from './given';
import { largestLatent, sdxlForwardFlops, sdxlSamplesPerSecond } from './sdxl';
import { overSizes, SIZES, samplesPerSecond, WAN_REQUESTS } from './wan-requests';

const { gpus, batch, grad_accum } = WAN_GIVEN;
/** FLOP/s of all GPUs for dense bf16, by NVIDIA's data sheet. */
const PEAK = gpus * 312e12;
/** FLOPs of training on one frame of 832 x 480, the smallest input that the model is made for, without recompute. */
const IMAGE_FLOPS = modelFlops({ ...PUBLISHED, seq: SIZES.image }, 1);

/** The same FLOPs as a cell: a block's matmuls and attention, in forward and backward. */
const IMAGE_SOURCE = `const d = 5120, seq = 1560, text = 512;
const block = 4 * d * d + 2 * d * 13824 + 2 * d * d * (1 + text / seq) + 2 * d * (seq + text);
const flops = 6 * seq * 40 * block;
`;

/** The speed of the document's run. */
export const WAN_THROUGHPUT: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.perf.throughput'),
    expected: { verdict: 'off', value: 19.77 },
    check: (lab) => {
      const atMost = PEAK / IMAGE_FLOPS;
      const of = (request: keyof typeof WAN_REQUESTS, seq: number) =>
        samplesPerSecond(lab.predict({ ...WAN_REQUESTS[request], seq }));
      const [frame, video] = [of('published', SIZES.image), of('published', SIZES.usual)];
      return {
        verdict: holdsOr(128 <= atMost, 'off'),
        predicted: atMost,
        unit: 'samples/s',
        by: `at least ${(128 / atMost).toPrecision(2)} x too high`,
        why: `One frame of 832 x 480 costs ${tera(IMAGE_FLOPS)} with one expert: at the data sheet's peak, 8 A100 compute ${atMost.toFixed(1)} per second. Predicted are ${frame.toPrecision(2)} single frames per second, or ${video.toPrecision(2)} videos of 81 frames (described 27B: ${of('described', SIZES.usual).toPrecision(2)}).`,
        evidence: { kind: 'formula', source: `${IMAGE_SOURCE}8 * 312e12 / flops` },
      };
    },
  },
  {
    claim: claimOf('wan.perf.step'),
    expected: { verdict: 'off', value: 12.95 },
    check: (lab) => {
      const atLeast = (batch * grad_accum * IMAGE_FLOPS) / PEAK;
      const seconds = (request: keyof typeof WAN_REQUESTS) =>
        Math.round(lab.predict({ ...WAN_REQUESTS[request], seq: SIZES.usual }).seconds.value);
      return {
        verdict: holdsOr(4.2 >= atLeast, 'off'),
        predicted: atLeast,
        unit: 's',
        by: `at least ${(atLeast / 4.2).toPrecision(2)} x too low`,
        why: `256 single frames of 832 x 480 take ${atLeast.toFixed(1)} s at the GPUs' peak. With 81 frames a step is predicted to take ${seconds('published')} s (described 27B: ${seconds('described')} s).`,
        evidence: { kind: 'formula', source: `${IMAGE_SOURCE}256 * flops / (8 * 312e12)` },
      };
    },
  },
  {
    claim: claimOf('wan.perf.of_ideal'),
    expected: { verdict: 'undefined', value: 82, within: 0 },
    check: (lab) => {
      const mfu = overSizes((seq) => 100 * lab.predict({ ...WAN_REQUESTS.published, seq }).mfu);
      return {
        verdict: 'undefined',
        judged: true,
        predicted: 100 - 18,
        unit: '%',
        by: 'the ideal may be the peak, or a step without communication',
        why: `A step that spends 18% in communication (wan.comm.share) has at most 82% of the speed without communication, not 89%. Against the peak: large matmuls alone reach 271 of the data sheet's 312 TFLOP/s (87%); for the whole step ${Math.round(mfu.low)} to ${Math.round(mfu.high)}% are predicted.`,
        evidence: { kind: 'formula', source: '100 - 18' },
      };
    },
  },
  {
    claim: claimOf('wan.perf.throughput_sdxl'),
    expected: { verdict: 'holds only if', value: 55.4, within: 0.5 },
    check: () => {
      const predicted = sdxlSamplesPerSecond();
      const side = 8 * largestLatent(86);
      return {
        verdict: onlyIf(side > 512, predicted.value >= 86),
        condition: `images have at most about ${side} x ${side} pixels`,
        otherwise: `1024 x 1024 pixels: ${Math.round(predicted.low)} to ${Math.round(predicted.high)} samples/s`,
        predicted,
        unit: 'samples/s',
        by: '',
        why: `The size of the images is not stated. 8 A100 at 45% of their peak train 86 images per second up to ${side} x ${side} pixels; with 1024 x 1024, ${Math.round(predicted.low)} at 30% of the peak to ${Math.round(predicted.high)} at 60%, without the autoencoder and the text encoders (the U-Net's forward is ${(sdxlForwardFlops() / 1e12).toFixed(1)} TFLOP). An image is not a video: the two speeds cannot be compared.`,
        evidence: { kind: 'formula', source: `0.45 * 8 * 312e12 / (3 * ${sdxlForwardFlops()})` },
      };
    },
  },
];

function tera(flops: number): string {
  return `${Math.round(flops / 1e12)} TFLOP`;
}
