import { test } from 'node:test';
import { checkReplicas, namesFor } from './replicas-suite';

for (const world of [3, 4, 6, 8]) {
  test(
    `replicas of every layout over ${world} ranks stay equal to the bit, and one changed bit is named`,
    {
      timeout: 600_000,
    },
    () => checkReplicas(world, namesFor(world)),
  );
}
