import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import type { PlanLab } from '../lab';
import { planCell } from '../plan-cell';
import { PUBLISHED } from './given';
import { SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const PER_NODE = 8;
/** Samples per GPU and step, for any number of nodes. */
const PER_GPU = 32;

/** Scaling of the document's run to more nodes. */
export const WAN_SCALING: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.scale.32'),
    expected: { verdict: 'not checkable here', value: 98.9, within: 3 },
    check: (lab) => ({
      verdict: 'not checkable here',
      predicted: efficiencyAt(lab, 32),
      unit: '%',
      by: '',
      why: `In percent of one node's speed per GPU, with the same samples per GPU: 81 frames of 832 x 480 and a 200 Gbit/s network card per GPU. The low end is one frame per sample and one network card per node; computation then no longer hides the all-gathers of an expert's 14.3B parameters.`,
      evidence: { kind: 'prediction', source: planCell(onNodes(32)) },
      needs: '32 nodes of 8 A100-80G with 200 Gbit/s cards',
      command: stepCommand(32),
    }),
  },
  {
    claim: claimOf('wan.scale.128'),
    expected: { verdict: 'not checkable here', value: 98.7, within: 3 },
    check: (lab) => {
      const cards = efficiencyAt(lab, 16).value;
      return {
        verdict: 'not checkable here',
        predicted: efficiencyAt(lab, 128),
        unit: '%',
        by: '',
        why: `For 128 nodes; for 128 GPUs (16 nodes), which the heading states, ${Math.round(cards)}%. 76% would need little work per GPU (single frames), or one 200 Gbit/s network card for 8 GPUs; with one network card per GPU, videos scale better.`,
        evidence: { kind: 'prediction', source: planCell(onNodes(128)) },
        needs: '128 nodes of 8 A100-80G with 200 Gbit/s cards',
        command: stepCommand(128),
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
        verdict: 'off',
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
