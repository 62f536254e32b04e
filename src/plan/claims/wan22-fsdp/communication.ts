import { CALIBRATION } from '../../calibration';
import { hardwareOf } from '../../hardware';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { pointsOff } from '../finding';
import { planCell } from '../plan-cell';
import { SPARSE_EXPERTS } from './experiments';
import { WAN_GIVEN } from './given';
import { commShares, overSizes, SIZES, stepCommand, WAN_REQUESTS } from './wan-requests';

const PER_NODE = 8;

/** What is sent, and how much of its time ranks wait. */
export const WAN_COMMUNICATION: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.comm.share'),
    expected: { verdict: 'not checkable here', value: 1.7, within: 1 },
    check: (lab) => ({
      verdict: 'not checkable here',
      predicted: overSizes((seq) => commShares(lab, WAN_REQUESTS.published, seq).now),
      unit: '%',
      by: '',
      why: `Waits for FSDP that prefetch does not hide, and Ulysses' all-to-alls. The high end is one frame of 832 x 480 per sample; with 81 frames the share is smallest (described 27B: ${shareText(commShares(lab, WAN_REQUESTS.described, SIZES.usual).now)}). 18% would need samples of fewer tokens or a slower link than NVLink.`,
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
    expected: { verdict: 'not checkable here', value: 0.43, within: 0.3 },
    check: (lab) => ({
      verdict: 'not checkable here',
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
    expected: { verdict: 'not checkable here', value: 1.4, within: 0.5 },
    check: (lab) => ({
      verdict: 'not checkable here',
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
      by: '',
      why: 'Neither the peers nor their hardware are named. The prediction is for such a model on 4 nodes with one 200 Gbit/s network card per node.',
      evidence: {
        kind: 'prediction',
        source: `${planCell({ ...WAN_REQUESTS.published, nicGbit: 25, gpus: 32, batch: { global: 1024, micro: 4 }, seq: SIZES.usual })}.prediction.time`,
      },
      needs:
        'the peers by name; taken as the same model on 4 nodes of 8 A100-80G with one 200 Gbit/s network card per node',
      command: stepCommand(4, ' --profile'),
    }),
  },
  {
    claim: claimOf('wan.comm.sparse'),
    expected: { verdict: 'off', value: -80, within: 0.5 },
    experiment: SPARSE_EXPERTS,
    check: (_, facts) => ({
      verdict: 'off',
      predicted: 100 * (0.2 - 1),
      unit: '%',
      by: pointsOff(60, 80),
      why: `If one of five experts is used, 20% of the gradients' bytes are sent; 60% less means 40% are used. The gradients of all experts that any rank uses are sent: in a run of two ranks with one token each, ${Math.round(100 * fact(facts, 'sparseRatio'))}% of the bytes of five experts.`,
      evidence: { kind: 'formula', source: '100 * (0.2 - 1)' },
    }),
  },
  {
    claim: claimOf('wan.comm.hierarchy'),
    expected: { verdict: 'not checkable here', value: 12, within: 0 },
    check: () => {
      const { linkGBps, nicGbit } = hardwareOf(WAN_GIVEN.gpu);
      const { linkEfficiency, nicEfficiency } = CALIBRATION;
      const ratio = linkGBps / (nicGbit / 8);
      return {
        verdict: 'not checkable here',
        predicted: { value: ratio, low: (ratio * linkEfficiency) / nicEfficiency, high: PER_NODE * ratio },
        unit: 'x the bandwidth inside a node',
        by: '',
        why: 'NCCL does this by itself if drivers and network cards allow it. By data sheets, NVLink gives a GPU 12 times the bandwidth of its own 200 Gbit/s card, or 96 times if 8 GPUs share one card. NCCL reaches a smaller share of NVLink than of a network card (low end).',
        evidence: { kind: 'formula', source: '300 / (200 / 8)' },
        needs: '2 nodes of 8 A100-80G with InfiniBand or RoCE cards',
        command:
          'git clone https://github.com/NVIDIA/nccl-tests && make -C nccl-tests MPI=1 && mpirun -np 8 -H node0:8 nccl-tests/build/all_reduce_perf -b 1G -e 1G && ' +
          'mpirun -np 16 -H node0:8,node1:8 -x NCCL_DEBUG=INFO nccl-tests/build/all_reduce_perf -b 1G -e 1G   # the log names P2P/CUMEM, and NET/IB/GDRDMA',
      };
    },
  },
];

function shareText(percent: number): string {
  return `${percent.toPrecision(2)}%`;
}
