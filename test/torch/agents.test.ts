import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClusterOptions, planCluster } from '../../src/launch/cluster';
import { agentCommands } from '../../src/torch/agents';

const KEY = 'the key';

function commands(options: ClusterOptions) {
  const interfaces = { eth0: [{ address: '10.0.0.1', family: 'IPv4' }] } as unknown as Parameters<
    typeof planCluster
  >[1];
  return agentCommands({
    cluster: planCluster({ ...options, ranks: 4 }, interfaces),
    ...{ python: '/opt/py thon', numRanks: 4, freePort: 4000, packages: '/lib', baseDir: '/home' },
    variables: { SHARDLAB_TORCH: KEY },
    env: { HOME: '/root', RANK: '7' },
  });
}

test('no launcher puts the key into arguments', () => {
  const eth0 = { interface: 'eth0' };
  const host = { address: '10.0.0.2', run: ['ip', 'netns', 'exec', 'a'] };
  for (const options of [
    {},
    { ...eth0, hosts: [host] },
    { ...eth0, launcher: 'ssh', hosts: ['n1', 'n2'] },
    { ...eth0, launcher: 'mpirun', hosts: ['n1', 'n2'] },
    { ...eth0, launcher: 'slurm', partition: 'debug' },
  ] as const) {
    for (const { args, env, order } of commands(options)) {
      assert.ok(!args.join(' ').includes(KEY));
      assert.ok(env.SHARDLAB_TORCH === KEY || order?.includes(KEY));
    }
  }
});

test('each host gets an agent of torchrun and its number; ssh gets one quoted command', () => {
  const made = commands({ interface: 'eth0', launcher: 'ssh', hosts: ['ann@n1', 'n2'] });
  const [first, second] = made;
  assert.equal(first?.file, 'ssh');
  assert.deepEqual(first?.args.slice(0, 4), ['-o', 'BatchMode=yes', '-T', 'ann@n1']);
  assert.equal(first?.args[4], "'/opt/py thon' '-I' '/lib/shardlab_torch/host.py'");
  const { argv, ranks, env } = JSON.parse(second?.order ?? '');
  assert.equal(ranks, 2);
  assert.equal(env.SHARDLAB_NODE, '1/2');
  const text = argv.join(' ');
  assert.match(
    text,
    /-m shardlab_torch\.agent --nnodes 1 --nproc-per-node 2 .*--rdzv-endpoint n1:4000 .*-m shardlab_torch$/,
  );
});

test('mpirun and srun start ranks without the rank of another job', () => {
  const [mpi] = commands({
    interface: 'eth0',
    launcher: 'mpirun',
    hosts: ['n1', 'n2'],
  });
  assert.match(
    mpi?.args.join(' ') ?? '',
    /^-np 4 --host n1:2,n2:2 .*-x SHARDLAB_TORCH -x MASTER_PORT -x MASTER_ADDR/,
  );
  assert.equal(mpi?.env.RANK, undefined);
  assert.deepEqual([mpi?.env.MASTER_ADDR, mpi?.env.MASTER_PORT], ['n1', '4000']);
  const [srun] = commands({ interface: 'eth0', launcher: 'slurm', partition: 'debug' });
  assert.match(srun?.args.join(' ') ?? '', /^--ntasks 4 --partition debug /);
  assert.equal(srun?.env.MASTER_ADDR, undefined);
});
