import { simulateReductionError } from '../../../parallel/precision/reduction-error';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { onlyIf } from '../finding';

const WORLD = 8;
/** Standard deviations of gradients for which the error is given. */
const TYPICAL = 1e-3;
const SMALL = 1e-6;
const TINY = 1e-8;
/** torch.amp.GradScaler's first factor. */
const LOSS_SCALE = 65_536;

/** Returns the error in percent of the exact mean, with fp16 on the wire and sums rounded at every hop. */
function errorAt(scale: number, lossScale = 1, world = WORLD): number {
  const rows = simulateReductionError({
    dtypes: ['float16'],
    worlds: [world],
    sizes: [1024],
    scales: [scale],
    lossScales: [lossScale],
  });
  return 100 * Math.max(...rows.map(({ relativeError }) => relativeError));
}

const CELL =
  'const job = await sl.launch({ ranks: 4 });\n' +
  "(await job.on('all').run(({ reductionError }) =>\n" +
  "  reductionError({ dtypes: ['float16'], sizes: [1024], scales: [1e-3, 1e-6, 1e-8], lossScales: [1, 65536] })))[0]";

/** Errors of sums in fp16. */
export const GUIDE_NUMERICS: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.num.fp16_error'),
    expected: { verdict: 'holds only if', value: 5.5, within: 0.1 },
    check() {
      const small = errorAt(SMALL);
      return {
        verdict: onlyIf(errorAt(TYPICAL) < 0.1, small < 0.1),
        condition: 'gradients, times the loss scale, are above about 1e-4',
        otherwise: `gradients of 1e-6: ${shown(small)}%, of 1e-8: ${shown(errorAt(TINY))}%`,
        predicted: small,
        unit: '%',
        by: '',
        why: `fp16 rounds to 0.05% above 6e-5; smaller values are rounded to multiples of 6e-8. Gradients of 1e-3 have an error of ${shown(errorAt(TYPICAL))}% on 8 GPUs. Over 64 GPUs, sums that are rounded at every hop have an error of ${shown(errorAt(1, 1, 64))}% at any size.`,
        evidence: { kind: 'run', source: CELL },
      };
    },
  },
  {
    claim: claimOf('guide.fix.amp'),
    expected: { verdict: 'off', value: 0.05, within: 0.001 },
    check: () => ({
      verdict: 'off',
      judged: true,
      predicted: errorAt(SMALL, LOSS_SCALE),
      unit: '% error left by a loss scale',
      by: 'it does neither; its loss scale prevents small gradients from becoming zero',
      why:
        'autocast chooses the type of operations and starts no communication; prefetch and buckets overlap it. GradScaler multiplies the ' +
        `loss: gradients of 1e-6 then have an error of ${shown(errorAt(SMALL, LOSS_SCALE))}% instead of ${shown(errorAt(SMALL))}%. ` +
        'The rest is the rounding of fp16, which nothing calibrates.',
      evidence: { kind: 'run', source: CELL },
    }),
  },
];

function shown(percent: number): string {
  return String(Number(percent.toPrecision(2)));
}
