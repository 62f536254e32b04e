import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkInterfaces } from '../../src/cli/doctor/reach';

const HERE = ['lo', 'eth0', 'eth1', 'ib0', 'docker0'];

function statusOf(name: string, value: string, route?: string) {
  const [check] = checkInterfaces([{ name, value, where: 'a.sh:3' }], HERE, route);
  assert.ok(check);
  return { ...check, chosen: check.facts?.chosen };
}

test('NCCL_SOCKET_IFNAME chooses by prefix, by whole name after =, and all others after ^', () => {
  const chosen = (value: string): unknown => statusOf('NCCL_SOCKET_IFNAME', value).chosen;
  assert.deepEqual(chosen('eth'), ['eth0', 'eth1']);
  assert.deepEqual(chosen('=eth'), []);
  assert.deepEqual(chosen('=eth0,eth1'), ['eth0', 'eth1']);
  assert.deepEqual(chosen('ib,eth1'), ['eth1', 'ib0']);
  assert.deepEqual(chosen('^docker,lo'), ['eth0', 'eth1', 'ib0']);
  assert.deepEqual(chosen('^=eth0'), ['lo', 'eth1', 'ib0', 'docker0']);
});

test('GLOO_SOCKET_IFNAME takes whole names only, and a pattern of NCCL in it is wrong', () => {
  assert.equal(statusOf('GLOO_SOCKET_IFNAME', 'eth0').status, 'good');
  assert.equal(statusOf('GLOO_SOCKET_IFNAME', 'eth').status, 'bad');
  const pattern = statusOf('GLOO_SOCKET_IFNAME', '^docker0');
  assert.equal(pattern.status, 'bad');
  assert.match(pattern.advice ?? '', /gloo takes names only, not \^ or =/);
});

test('an interface that this machine does not have is wrong, and the interfaces that it has are named', () => {
  const { status, found, advice } = statusOf('NCCL_SOCKET_IFNAME', 'ens3');
  assert.equal(status, 'bad');
  assert.match(found, /ens3 \(a\.sh:3\) matches no interface/);
  assert.match(advice ?? '', /lo, eth0, eth1, ib0, docker0/);
});

test('loopback alone is wrong; an interface beside that of the route to machine 0 is a note', () => {
  assert.equal(statusOf('NCCL_SOCKET_IFNAME', 'lo').status, 'bad');
  assert.equal(statusOf('NCCL_SOCKET_IFNAME', 'eth', 'eth0').status, 'good');
  const other = statusOf('NCCL_SOCKET_IFNAME', 'ib0', 'eth0');
  assert.equal(other.status, 'note');
  assert.match(other.found, /chooses ib0, but machine 0 is reached by eth0/);
});
