#!/bin/sh
# Train, evaluate and rank from the command line, on generated data.
set -eu

awk 'BEGIN {
    srand(1)
    for (query = 1; query <= 60; query++)
        for (document = 1; document <= 10; document++) {
            grade = int(3 * rand())
            printf "%d qid:%d 1:%.3f 2:%.3f\n", grade, query, grade + 4 * rand(), grade + 2 * rand()
        }
}' > judged.txt
head -n 400 judged.txt > train.txt
tail -n 200 judged.txt > test.txt

marginrank inspect train.txt
marginrank train train.txt --measure ndcg@10 -C 1 -o model.safetensors
marginrank evaluate test.txt model.safetensors
marginrank rank model.safetensors test.txt --k 3 > ranking.tsv
