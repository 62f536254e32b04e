import { CALIBRATION } from '../../calibration';
import { hardwareOf } from '../../hardware';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { holdsOr, isNear } from '../finding';
import { planCell } from '../plan-cell';
import { SPARSE_EXPERTS } from './experiments';
import { WAN_GIVEN } from './given';
import { commShares, overSizes, SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const PER_NODE = 8;

/** What is sent, and how much of its time ranks wait. */
export const WAN_COMMUNICATION: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.comm.share'),
    expected: { verdict: 'open', value: 1.7, within: 1 },
    check: (lab) => ({
      verdict: 'open',
      predicted: overSizes((seq) => commShares(lab, WAN_REQUESTS.published, seq).now),
      unit: '%',
      by: '',
      why: `Whether this counts waits or all communication is not said. Predicted are the waits for FSDP that prefetch does not hide, and Ulysses' all-to-alls. The high end is one frame of 832 x 480 per sample; with 81 frames the share is smallest (described 27B: ${shareText(commShares(lab, WAN_REQUESTS.described, SIZES.usual).now)}). All communication of FSDP is 18% of a step at about 1,300 tokens per sample, less than one frame.`,
      evidence: {
        kind: 'prediction',
        source: `${planCell({ ...WAN_REQUESTS.published, seq: SIZES.usual })}.prediction.time`,
      },
      needs: '8 x A100-80G on NVLink, and the size of the videos',
      command: stepCommand(1, ' --profile'),
    }),
  },
  {
    claim: claimOf('wan.comm.share_before'),
    expected: { verdict: 'open', value: 0.43, within: 0.3 },
    check: (lab) => ({
      verdict: 'open',
      predicted: overSizes((seq) => commShares(lab, WAN_REQUESTS.published, seq).before),
      unit: '%',
      by: '',
      why: 'The share if ranks wait for every all-gather and reduce-scatter of FSDP. Ulysses adds bytes and removes none of these: it saves memory, but does not lower this share.',
      evidence: {
        kind: 'prediction',
        source: `${planCell({ ...WAN_REQUESTS.published, seq: SIZES.usual })}.prediction.time.commBytes`,
      },
      needs: '8 x A100-80G on NVLink, and the size of the videos',
      command: stepCommand(1, ' --no-prefetch --profile').replace(
        '--ulysses 8 --batch 32',
        '--ulysses 1 --batch 4',
      ),
    }),
  },
  {
    claim: claimOf('wan.comm.share_peers'),
    expected: { verdict: 'undefined', value: 1.4, within: 0.5 },
    check: (lab) => ({
      verdict: 'undefined',
      judged: true,
      predicted: overSizes((seq) => {
        const { time } = lab.predict({
          ...WAN_REQUESTS.published,
          nicGbit: 25,
          gpus: 32,
          batch: { global: 1024, micro: 4 },
          seq,
        });
        return (100 * time.exposedComm) / time.seconds;
      }),
      unit: '%',
      by: 'the peers, their hardware and their videos are not named',
      why: 'Neither the peers nor their hardware are named, so nothing can be averaged; "10% lower" is 10 points. The prediction is for such a model on 4 nodes with one 200 Gbit/s network card per node.',
      evidence: {
        kind: 'prediction',
        source: `${planCell({ ...WAN_REQUESTS.published, nicGbit: 25, gpus: 32, batch: { global: 1024, micro: 4 }, seq: SIZES.usual })}.prediction.time`,
      },
    }),
  },
  {
    claim: claimOf('wan.comm.sparse'),
    expected: { verdict: 'contradicts itself', value: -80, within: 0.5 },
    experiment: SPARSE_EXPERTS,
    check: (_, facts) => ({
      verdict: holdsOr(isNear(60, 80), 'contradicts itself'),
      follows: 'wan.arith.active',
      predicted: 100 * (0.2 - 1),
      unit: '%',
      by: 'with 20% of the experts in use it would be 80% less',
      why: `If one of five experts is used, 20% of the gradients' bytes are sent; 60% less means that 40% are used. Both happen here: two ranks with one token each used two of five experts, and sent ${Math.round(100 * fact(facts, 'sparseRatio'))}% of the bytes. Wan has two experts, of which 20% cannot be in use.`,
      evidence: { kind: 'formula', source: '100 * (0.2 - 1)' },
    }),
  },
  {
    claim: claimOf('wan.comm.hierarchy'),
    expected: { verdict: 'holds partly', value: 12, within: 0 },
    check: () => {
      const { linkGBps, nicGbit } = hardwareOf(WAN_GIVEN.gpu);
      const { linkEfficiency, nicEfficiency } = CALIBRATION;
      const ratio = linkGBps / (nicGbit / 8);
      return {
        verdict: 'holds partly',
        judged: true,
        part: 'RDMA with GPUDirect between nodes',
        predicted: { value: ratio, low: (ratio * linkEfficiency) / nicEfficiency, high: PER_NODE * ratio },
        unit: 'x the bandwidth inside a node',
        by: 'within a layer FSDP uses collectives, not point-to-point',
        why: 'NCCL uses RDMA and GPUDirect by itself if drivers and network cards allow it; there are no priorities to set. FSDP calls all-gather and reduce-scatter in a layer; only an all-to-all is made of sends and receives. By data sheets, NVLink gives a GPU 12 times the bandwidth of its own 200 Gbit/s card, or 96 times if 8 GPUs share one card. NCCL reaches a smaller share of NVLink than of a network card (low end).',
        evidence: { kind: 'formula', source: '300 / (200 / 8)' },
      };
    },
  },
];

function shareText(percent: number): string {
  return `${percent.toPrecision(2)}%`;
}
