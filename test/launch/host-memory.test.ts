import assert from 'node:assert/strict';
import { freemem } from 'node:os';
import { test } from 'node:test';
import { availableMemory, cachedFiles, countOomKills, type ReadText } from '../../src/launch/host-memory';

function files(texts: Readonly<Record<string, string>>): ReadText {
  return (path) => texts[path];
}

const V2 = files({
  '/proc/self/cgroup': '0::/box\n',
  '/sys/fs/cgroup/box/memory.events': 'low 0\noom 7\noom_kill 3\n',
  '/sys/fs/cgroup/box/memory.stat': 'anon 5\nfile 900\ninactive_file 700\n',
  '/proc/vmstat': 'oom_kill 50\n',
});

const V1_IN_CONTAINER = files({
  '/proc/self/cgroup': '9:name=systemd:/docker/1\n4:cpu,memory:/docker/1\n0::/\n',
  '/sys/fs/cgroup/memory/memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n',
  '/sys/fs/cgroup/memory/memory.stat': 'inactive_file 1\ntotal_inactive_file 400\n',
});

test("out-of-memory kills are counted by the container's own count, else by the host's", () => {
  assert.equal(countOomKills(V2), 3);
  assert.equal(countOomKills(V1_IN_CONTAINER), 2);
  assert.equal(countOomKills(files({ '/proc/vmstat': 'pgfault 1\noom_kill 50\n' })), 50);
  assert.equal(countOomKills(files({})), undefined);
});

test("the file cache of a container counts as available memory, up to the host's free memory", () => {
  assert.equal(cachedFiles(V2), 700);
  assert.equal(cachedFiles(V1_IN_CONTAINER), 400);
  assert.equal(cachedFiles(files({})), 0);
  const huge = files({
    '/proc/self/cgroup': '0::/\n',
    '/sys/fs/cgroup/memory.stat': 'inactive_file 9000000000000000\n',
  });
  // Other processes allocate and free memory between the two reads.
  assert.ok(Math.abs(availableMemory(huge) - freemem()) < 0.1 * freemem());
});
