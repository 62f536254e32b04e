import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, onlyIf } from '../finding';
import type { PlanLab } from '../lab';
import { planCell } from '../plan-cell';
import { PUBLISHED } from './given';
import { SIZES, WAN_REQUESTS } from './wan-requests';

const PER_NODE = 8;
/** The largest number of GPUs in the heading of the document's test. */
const HEADING_GPUS = 128;
/** Samples per GPU and step, for any number of nodes. */
const PER_GPU = 32;

/** Scaling of the document's run to more nodes. */
export const WAN_SCALING: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.scale.32'),
    expected: { verdict: 'holds only if', value: 98.9, within: 3 },
    check: (lab) => ({
      verdict: onlyIf(scaled(lab, onNodes(32)) > 85, scaled(lab, onNodes(32, SIZES.image, 25)) > 85),
      condition: 'each GPU has its own network card and whole videos',
      otherwise: `one card per node and single frames leave ${Math.round(scaled(lab, onNodes(32, SIZES.image, 25)))}%`,
      predicted: efficiencyAt(lab, 32),
      unit: '%',
      by: '',
      why: `In percent of one node's speed per GPU, with the same samples per GPU: 81 frames of 832 x 480 and a 200 Gbit/s network card per GPU. The low end is one frame per sample and one network card per node; computation then no longer hides the all-gathers of an expert's 14.3B parameters.`,
      evidence: { kind: 'prediction', source: planCell(onNodes(32)) },
    }),
  },
  {
    claim: claimOf('wan.scale.128'),
    expected: { verdict: 'contradicts itself', value: 98.7, within: 3 },
    check: (lab) => {
      const cards = efficiencyAt(lab, 16).value;
      return {
        verdict: holdsOr(HEADING_GPUS >= 128 * PER_NODE, 'contradicts itself'),
        predicted: efficiencyAt(lab, 128),
        unit: '%',
        by: `the heading tests up to ${HEADING_GPUS} GPUs, 128 nodes have ${128 * PER_NODE}`,
        why: `128 GPUs, which the heading states, are 16 nodes, with ${Math.round(cards)}% predicted; for 128 nodes see the interval. A ring moves nearly the same bytes per GPU at 32 and 128 nodes, so a network card does not explain a fall between them.`,
        evidence: { kind: 'prediction', source: planCell(onNodes(128)) },
      };
    },
  },
  {
    claim: claimOf('wan.scale.moe_vs_dense'),
    expected: { verdict: 'off', value: 2, within: 0 },
    check: () => {
      const { experts, layers, layerParams, outerParams, params } = PUBLISHED;
      const computing = layers * layerParams + outerParams;
      return {
        verdict: holdsOr(params <= computing, 'off'),
        predicted: params / computing,
        unit: 'x bytes per operation',
        by: 'the other way round under FSDP',
        why: `FSDP gathers and reduces each of the ${experts} experts that any rank uses in a step, and a sample computes with one: ${experts} x the bytes per operation of a dense model, so it scales worse. If all ranks use the same expert in a step, it scales as well as a dense model; it scales better only if experts stay on their ranks (expert parallelism).`,
        evidence: { kind: 'formula', source: '(2 * 14_288_491_584) / 14_288_491_584' },
      };
    },
  },
];

function onNodes(nodes: number, seq: number = SIZES.usual, nicGbit = 200): PlanRequestInput {
  const gpus = nodes * PER_NODE;
  return { ...WAN_REQUESTS.published, gpus, nicGbit, seq, batch: { global: gpus * PER_GPU, micro: 4 } };
}

/** Returns the speed per GPU in percent of one node's. */
function scaled(lab: PlanLab, request: PlanRequestInput): number {
  const seconds = (gpus: number): number =>
    lab.predict({ ...request, gpus, batch: { global: gpus * PER_GPU, micro: 4 } }).seconds.value;
  return (100 * seconds(PER_NODE)) / seconds(request.gpus ?? PER_NODE);
}

function efficiencyAt(lab: PlanLab, nodes: number) {
  const at = (seq: number, nicGbit: number): number => scaled(lab, onNodes(nodes, seq, nicGbit));
  const value = at(SIZES.usual, 200);
  // One network card per node is 25 Gbit/s per GPU.
  const all = [value, at(SIZES.image, 200), at(SIZES.image, 25), at(SIZES.large, 200)];
  return { value, low: Math.min(...all), high: Math.max(...all) };
}
