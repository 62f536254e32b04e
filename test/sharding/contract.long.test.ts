import { allCasesOf } from './contract-cases';
import { contractOf } from './contract-suite';

for (const world of [1, 2, 3, 4]) contractOf(world, allCasesOf(world, 'all'));
