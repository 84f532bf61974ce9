-- Returns true if a number of JSON is beyond the range of a 64-bit double, which then is infinity (base/doubles.py). The text decides,
-- because PostgreSQL raises for numbers that are too large or too small for its types.
CREATE OR REPLACE FUNCTION number_overflows(p_number text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    -- The first number that becomes infinity: 2^1024 - 2^970, half way between the largest double and 2^1024.
    bound CONSTANT text :=
        '1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963'
        '3028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027'
        '0069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792';
    parts    text[] := regexp_match(p_number, '^-?([0-9]+)\.?([0-9]*)(?:[eE]([+-]?)0*([0-9]*))?$');
    digits   text := ltrim(parts[1] || parts[2], '0');
    exponent text := coalesce(parts[4], '');
    place    bigint;  -- the number is 0.digits * 10^place
BEGIN
    IF digits = '' THEN
        RETURN false;
    ELSIF length(exponent) > 9 THEN  -- no record has so many digits that they could even it out
        RETURN parts[3] <> '-';
    END IF;
    place := length(digits) - length(parts[2]) + (coalesce(parts[3], '') || coalesce(nullif(exponent, ''), '0'))::bigint;
    RETURN place > 309 OR place = 309 AND rpad(digits, 309, '0') COLLATE "C" >= bound;
END
$$;
