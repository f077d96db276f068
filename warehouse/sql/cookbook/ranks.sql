-- Share of tokens in the top 1, 5, 10 and 100
-- param problem  -- which problem
-- param condition  -- which context condition
select
    model_id,
    count(*) as tokens,
    avg((rank = 1)::integer) as first,
    avg((rank <= 5)::integer) as among_5,
    avg((rank <= 10)::integer) as among_10,
    avg((rank <= 100)::integer) as among_100,
    median(rank) as median_rank,
    avg(1 / rank) as mean_reciprocal_rank
from tokens
where problem = $problem and condition = $condition
group by model_id
order by first desc, model_id
