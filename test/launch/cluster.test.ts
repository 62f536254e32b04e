import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { type ClusterOptions, planCluster } from '../../src/launch/cluster';

const address = (text: string): NetworkInterfaceInfo => ({
  ...{ address: text, netmask: '255.255.255.0', family: 'IPv4', mac: '', internal: false, cidr: null },
});
const INTERFACES = { lo: [address('127.0.0.1')], eth0: [address('10.0.0.1')] };

const plan = (options: unknown, ranks = 4) =>
  planCluster({ ...(options as ClusterOptions), ranks }, INTERFACES);

test('without hosts, the control link stays on this machine', () => {
  const { launcher, address: at, hosts } = plan({});
  assert.deepEqual({ launcher, at, hosts }, { launcher: 'torchrun', at: '127.0.0.1', hosts: [] });
});

test('with hosts, the control link listens on the given interface only', () => {
  const cluster = plan({ launcher: 'ssh', hosts: ['ann@n1', 'n2'], interface: 'eth0' });
  assert.equal(cluster.address, '10.0.0.1');
  assert.deepEqual(
    cluster.hosts.map((host) => host.address),
    ['n1', 'n2'],
  );
  assert.throws(() => plan({ launcher: 'ssh', hosts: ['n1'] }), /need the option interface.*lo, eth0/);
  assert.throws(() => plan({ interface: 'eth1' }), /interface is 'eth1'.*lo, eth0/);
});

test('options of hosts that no launcher can follow are refused', () => {
  const given = { interface: 'eth0' };
  for (const [options, message] of [
    [{ launcher: 'ssh' }, /needs hosts/],
    [{ ...given, launcher: 'ssh', hosts: ['-oProxyCommand=x'] }, /takes names of hosts/],
    [{ ...given, hosts: ['n1'] }, /launcher 'ssh' takes names/],
    [
      { ...given, launcher: 'ssh', hosts: ['a', 'b', 'c'] },
      /4 ranks cannot be divided equally among 3 hosts/,
    ],
    [{ partition: 'debug' }, /partition is an option of launcher 'slurm'/],
  ] as const) {
    assert.throws(() => plan(options), { code: 'CONFIG', message });
  }
});
