import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import type { PlanLab } from '../lab';
import { planCell } from '../plan-cell';
import { PUBLISHED } from './given';
import { SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const PER_NODE = 8;
/** Samples a GPU and step on any number of nodes. */
const PER_GPU = 32;

/** How the run would scale. */
export const WAN_SCALING: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.scale.32'),
    expected: { verdict: 'not checkable here', value: 98.9, within: 3 },
    check: (lab) => ({
      verdict: 'not checkable here',
      predicted: efficiencyAt(lab, 32),
      unit: '%',
      by: '',
      why: `Of one node's speed, the same samples a GPU: 81 frames of 832 x 480 with a 200 Gbit/s card a GPU. The low end is one frame a sample and one card a node, where gathers of an expert's 14.3B parameters no longer hide.`,
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
        why: `At 128 nodes; at 128 cards (16 nodes), which the heading says, ${Math.round(cards)}%. What 76% would need is little work a GPU (single frames) or one 200 Gbit/s card for 8 GPUs; a card a GPU is enough for videos.`,
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
        why: `FSDP gathers and reduces each of the ${experts} experts that any rank uses in a step, and a sample computes with one: ${experts} x the bytes per operation of a dense model, so it scales worse. Where all ranks take the same expert in a step it is as good as dense; better only where experts stay on their ranks (expert parallelism).`,
        evidence: { kind: 'formula', source: '(2 * 14_288_491_584) / 14_288_491_584' },
      };
    },
  },
];

function onNodes(nodes: number, seq: number = SIZES.usual, nicGbit = 200): PlanRequestInput {
  const gpus = nodes * PER_NODE;
  return { ...WAN_REQUESTS.published, gpus, nicGbit, seq, batch: { global: gpus * PER_GPU, micro: 4 } };
}

/** Percent of one node's speed. */
function scaled(lab: PlanLab, request: PlanRequestInput): number {
  const seconds = (gpus: number): number =>
    lab.predict({ ...request, gpus, batch: { global: gpus * PER_GPU, micro: 4 } }).seconds.value;
  return (100 * seconds(PER_NODE)) / seconds(request.gpus ?? PER_NODE);
}

function efficiencyAt(lab: PlanLab, nodes: number) {
  const at = (seq: number, nicGbit: number): number => scaled(lab, onNodes(nodes, seq, nicGbit));
  const value = at(SIZES.usual, 200);
  // One card a node is 25 Gbit/s a GPU.
  const all = [value, at(SIZES.image, 200), at(SIZES.image, 25), at(SIZES.large, 200)];
  return { value, low: Math.min(...all), high: Math.max(...all) };
}
