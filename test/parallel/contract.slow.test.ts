import { casesOf, optimizerCasesOf } from './contract-cases';
import { contractOf } from './contract-suite';

for (const world of [1, 2, 3, 4]) contractOf(world, new Map([...casesOf(world), ...optimizerCasesOf(world)]));
